"""Whether requests can run together in a model: shown by running two alone and together, and comparing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.cuts import Cut
from headway.models.ordered_graph import OrderedGraph
from headway.models.runtime_session import TimeLimit, run_failure
from headway.models.sample_inputs import Inputs, sample_inputs
from headway.models.value_types import ValueKind, ValueType

if TYPE_CHECKING:
    import numpy as np

_TOLERANCES: Final = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2}
_INTEGERS: Final = ((0, 1), (1, 1), (0, 0))  # of the two requests: different ones tell more, if they run


def sized_types(
    graph: OrderedGraph, types: Mapping[str, ValueType], session: Any, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, ValueType]:
    """The types of one request's tensors, sizes that the file leaves open taken from a run.

    Raises HeadwayError if made-up inputs do not run.
    """
    names = [name for name in _made(graph) if types[name].kind is ValueKind.TENSOR]
    open_names = [name for name in names if types[name].shape is None]
    sized = dict(types)
    for name, shape in shapes.items():
        sized[name] = replace(types[name], shape=shape, dims=shape)
    if open_names:
        problem = None
        inputs = {name: types[name] for name in graph.inputs}
        for integer in (0, 1):
            feeds = sample_inputs(inputs, shapes, seed=0, integer=integer)
            try:
                results = _run(session, open_names, feeds)
            except HeadwayError as error:
                problem = error
                continue
            for name, value in zip(open_names, results, strict=True):
                if hasattr(value, "shape"):
                    sized[name] = replace(types[name], shape=tuple(value.shape), dims=tuple(value.shape))
            return sized
        assert problem is not None
        raise problem
    return sized


def batch_rows(
    graph: OrderedGraph,
    types: Mapping[str, ValueType],
    session: Any,
    cuts: Sequence[Cut],
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> tuple[dict[str, int], tuple[Cut, ...]]:
    """Rows of each input, output, and tensor that crosses a cut; and the cuts that a batch may be split at.

    Args:
        graph: the model.
        types: of one request's tensors.
        session: offers every tensor as an output, for any batch.
        cuts: all cuts; those are left out at which the requests' parts do not lie one after the other.
        shapes: of one request's inputs.
        where: the model, for messages.

    Raises:
        HeadwayError: two requests together do not run, or an output of theirs is not what it is alone.
    """
    import numpy as np

    made = set(_made(graph))
    crossing = {name for cut in cuts for name in cut.tensors}
    names = sorted((crossing | set(graph.outputs)) & made)
    inputs = {name: types[name] for name in graph.inputs}
    texts = [name for name in (*graph.inputs, *graph.outputs) if types[name].dtype == "string"]
    if texts:
        raise HeadwayError(f"{where}: {texts[0]!r} holds strings; accepted for batches: numbers")
    problem: HeadwayError | None = None
    for integers in _INTEGERS:
        one, two = (
            sample_inputs(inputs, shapes, seed=seed, integer=integer) for seed, integer in enumerate(integers)
        )
        both = {name: np.concatenate([one[name], two[name]]) for name in inputs}
        try:
            values = [_run(session, names, feeds) for feeds in (one, two, both)]
        except HeadwayError as error:
            problem = error
            continue
        break
    else:
        raise HeadwayError(f"{where}: two requests do not run together ({problem})")
    rows = {name: shape[0] for name, shape in shapes.items()}
    strays = set()
    for name, first, second, together in zip(names, *values, strict=True):
        count = _rows(first, second, together)
        if count is None or not types[name].bindable:
            strays.add(name)
        elif count:
            rows[name] = count
    wrong = [name for name in graph.outputs if name in strays]
    if wrong:
        raise HeadwayError(
            f"{where}: output {wrong[0]!r} of two requests together is not what it is of each alone, so they"
            " cannot run as a batch"
        )
    return rows, tuple(cut for cut in cuts if not strays & set(cut.tensors))


def _made(graph: OrderedGraph) -> list[str]:
    return sorted(graph.made)


def _run(session: Any, names: Sequence[str], feeds: Inputs) -> list[Any]:
    try:
        with TimeLimit() as limit:
            results: list[Any] = session.run(list(names), dict(feeds), limit.options)
    except Exception as error:
        # ONNX Runtime's exceptions have no common base class but this one.
        raise run_failure(error, "a run of made-up inputs", limit) from error
    return results


def _rows(first: Any, second: Any, together: Any) -> int | None:
    """Rows of one request along the first axis; 0 if all share the tensor, None if neither is so."""
    arrays = (first, second, together)
    if not all(hasattr(each, "shape") for each in arrays) or first.shape != second.shape:
        return None
    if first.ndim and together.shape == (2 * first.shape[0], *first.shape[1:]):
        count = int(first.shape[0])
        if count and _alike(together[:count], first) and _alike(together[count:], second):
            return count
    if together.shape == first.shape and _alike(together, first) and _alike(together, second):
        return 0
    return None


def _alike(found: np.ndarray, expected: np.ndarray) -> bool:
    import numpy as np

    tolerance = _TOLERANCES.get(str(found.dtype), 0.0 if found.dtype.kind in "iubOSU" else 5e-2)
    if not tolerance:
        return bool(np.array_equal(found, expected))
    largest = float(np.nanmax(np.abs(expected), initial=0.0)) if expected.size else 0.0
    within = tolerance * max(largest, 1e-30)
    return bool(np.allclose(found, expected, rtol=tolerance, atol=within, equal_nan=True))
