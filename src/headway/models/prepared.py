"""A model ready for cutting: optimised as a whole by ONNX Runtime, in order, with the type of every tensor.

Cutting the optimised graph keeps the fused operators and the blocked layout of convolutions, so that the
blocks, opened with optimisation off, compute to the bit what the whole model computes, and hardly slower.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.batch_axis import batch_axes
from headway.models.batch_rows import batch_rows, sized_types
from headway.models.cuts import Cut, cuts_of
from headway.models.dimensions import bind_inputs
from headway.models.model_file import ModelFile, hashed_content, read_model
from headway.models.ordered_graph import OrderedGraph, ordered_graph
from headway.models.runtime_session import SessionSettings, TimeLimit, open_session, run_failure
from headway.models.sample_inputs import Inputs, sample_inputs
from headway.models.value_types import ValueKind, ValueType, parse_type
from headway.models.weight_store import EXTERNAL_FROM_BYTES, Workspace, detach_weights
from headway.models.whole_model import WholeModel, fix_sizes, name_nodes, whole_model

if TYPE_CHECKING:
    from onnx import ModelProto

_WEIGHTS: Final = "weights.bin"
_SAVING: Final = (
    ("session.optimized_model_external_initializers_file_name", _WEIGHTS),
    ("session.optimized_model_external_initializers_min_size_in_bytes", str(EXTERNAL_FROM_BYTES)),
)
# Weights are saved in the layout that kernels pack them into. Sessions then map those pages instead of each
# making a copy of its own; measured with ONNX Runtime 1.32: 150 MB less for three sessions of a 51 MB
# model.
_PACKED: Final = (("session.save_external_prepacked_constant_initializers", "1"),)
_TYPES_ONLY: Final = (("session.disable_prepacking", "1"),)


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """What splitting starts from. It may be split any number of times; all splits share its files.

    `types` and `sizes_bytes` cover the graph's inputs, outputs and every tensor that nodes make. A size
    that varies from request to request is the one of a run on sample inputs. `optimised` says whether the
    graph to be cut is the one that ONNX Runtime optimised; `notes` say why not, and whatever else was
    noticed.

    A model that was prepared for batches runs any number of requests together: `types` are of one, `declared`
    leave the batch open, and `rows` says of each input, output and tensor that crosses a cut how many rows
    along its first axis belong to one request; what is not in it they share.
    """

    name: str
    where: str
    content_hash: str
    workspace: Workspace
    whole: WholeModel
    graph: OrderedGraph
    optimised: bool
    types: Mapping[str, ValueType]
    sizes_bytes: Mapping[str, int]
    cuts: tuple[Cut, ...]
    random_nodes: tuple[str, ...]
    sample_shapes: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...]
    rows: Mapping[str, int] = field(default_factory=dict)
    declared: Mapping[str, ValueType] = field(default_factory=dict)

    @property
    def file_types(self) -> Mapping[str, ValueType]:
        """Types as the files of blocks declare them."""
        return self.declared or self.types

    @property
    def inputs(self) -> dict[str, ValueType]:
        """Types of what a request must bring."""
        return {name: self.types[name] for name in self.graph.inputs}

    def sample(self, seed: int = 0, integer: int = 0) -> dict[str, Any]:
        """Made-up inputs of the right types and shapes; sizes left open take the reader's defaults."""
        return sample_inputs(self.inputs, self.sample_shapes, seed=seed, integer=integer)

    def constant_outputs(self) -> dict[str, Any]:
        """Values of outputs that are initialisers.

        Raises:
            HeadwayError: one is stored sparsely.
        """
        from onnx import numpy_helper

        graph = self.graph
        sparse = [name for name in graph.outputs if name in graph.sparse]
        if sparse:
            raise HeadwayError(
                f"{self.where}: output {sparse[0]!r} is a sparse initialiser; accepted: a dense one"
            )
        return {
            name: numpy_helper.to_array(graph.initialisers[name], str(self.workspace.folder))
            for name in graph.outputs
            if name in graph.initialisers
        }


def prepare(
    source: str | os.PathLike[str] | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    optimise: bool = True,
    sample: Inputs | None = None,
    batches: bool = False,
) -> PreparedModel:
    """Make a model ready for cutting.

    Args:
        source: a file or a model in memory.
        dims: sizes to fix for symbolic dimensions, by name or as INPUT.AXIS; those not named get the reader's
            defaults. With None all stay open; boundaries of open size are allocated anew in every run, which
            costs time.
        optimise: cut the graph that ONNX Runtime makes of the model; False cuts the model as it is.
        sample: inputs for the run that measures sizes that nothing else tells; made up by default.
        batches: leave the first dimension of all inputs open, so that requests can run together.

    Raises:
        HeadwayError: a model for batches whose first dimensions are fixed, or in which two requests together
            do not give what each gives alone; a file that cannot be read, weights that are absent, an
            operator that ONNX Runtime lacks (named with its domain), or sizes that contradict the file.
    """
    file = read_model(source, hashed=False)
    if not file.weights_present:
        raise HeadwayError(
            f"{file.where}: external data is absent, so the model cannot run; accepted: a model with weights"
        )
    with ThreadPoolExecutor(max_workers=1) as other:  # while ONNX Runtime optimises on this thread
        hashing = other.submit(hashed_content, file.model, file.files)
        made = _prepared(file, dims, sample, optimise=optimise, batches=batches)
        return replace(made, content_hash=hashing.result()[0])


def _prepared(
    file: ModelFile,
    dims: Mapping[str, int] | None,
    sample: Inputs | None,
    *,
    optimise: bool,
    batches: bool,
) -> PreparedModel:
    original = ordered_graph(file.model, file.where)
    workspace = Workspace()
    binding = bind_inputs(list(original.inputs.values()), dims or {}, {}, file.where)
    shapes = {
        name: tuple(size or 0 for size in tensor.shape)
        for name, tensor in binding.inputs.items()
        if tensor.shape is not None
    }
    notes: list[str] = []
    fixed = shapes if dims is not None else {}
    if batches:
        batch_axes(original.inputs.values(), dims or {}, file.where)
        _refuse_chance(original.random_nodes, file.where)
        shapes = {name: (1, *shape[1:]) for name, shape in shapes.items()}
        fixed = {name: (0, *shape[1:]) for name, shape in shapes.items()}
    try:
        whole, made, optimised = _made(file, workspace, fixed, notes, optimise=optimise)
    except HeadwayError as refusal:
        # Fixed sizes are looked at in branches, too, that no request with such sizes ever takes.
        if not fixed or batches:
            raise
        try:
            whole, made, optimised = _made(file, workspace, {}, notes, optimise=optimise)
        except HeadwayError:
            raise refusal from None
        notes.append(f"sizes stay open, since it is refused with fixed ones: {refusal}")
    if dims is not None:
        notes += binding.warnings
    graph, types, session = made
    declared: Mapping[str, ValueType] = {}
    if batches:
        declared, types = types, sized_types(graph, types, session, shapes)
    sizes, problem = _sizes(graph, types, session, sample, shapes, file.where)
    notes += [problem] if problem else []
    cuts = tuple(
        cut
        for cut in cuts_of(graph, sizes)
        if all(types[name].kind is not ValueKind.OTHER for name in cut.tensors)
    )
    rows: Mapping[str, int] = {}
    if batches:
        rows, cuts = batch_rows(graph, types, session, cuts, shapes, file.where)
    elif len(cuts) < len(graph) - 1:
        notes.append("maps and sparse tensors cross no cut: places where they would are left out")
    return PreparedModel(
        name=file.path.stem if file.path is not None else file.model.graph.name or "model",
        where=file.where,
        content_hash="",
        workspace=workspace,
        whole=whole,
        graph=graph,
        optimised=optimised,
        types=MappingProxyType(types),
        sizes_bytes=MappingProxyType(sizes),
        cuts=cuts,
        random_nodes=original.random_nodes,
        sample_shapes=MappingProxyType(shapes),
        notes=tuple(notes),
        rows=MappingProxyType(rows),
        declared=MappingProxyType(declared),
    )


def _refuse_chance(random_nodes: Sequence[str], where: str) -> None:
    if random_nodes:
        raise HeadwayError(
            f"{where}: node {random_nodes[0]!r} draws random numbers, so that two requests together cannot be"
            " compared with each alone; accepted for batches: a model without chance"
        )


_Made = tuple[OrderedGraph, dict[str, ValueType], Any]


def _made(
    file: ModelFile,
    workspace: Workspace,
    shapes: Mapping[str, tuple[int, ...]],
    notes: list[str],
    *,
    optimise: bool,
) -> tuple[WholeModel, _Made, bool]:
    """The whole model with these sizes, the graph to cut, and whether that is the optimised one."""
    whole = whole_model(file, workspace, shapes)
    made = _optimised(whole, workspace, file, notes) if optimise else None
    if shapes and not optimise:
        whole.open()  # raises if it is refused; its blocks might be only when they are opened
    return whole, made or _as_it_is(file, workspace, shapes), made is not None


def _optimised(whole: WholeModel, workspace: Workspace, file: ModelFile, notes: list[str]) -> _Made | None:
    """The optimised graph, or None if it cannot be cut, which is noted; a refused model raises."""
    path = workspace.folder / "optimised.onnx"
    # ONNX Runtime 1.32 writes files that it cannot read again when it packs the weights of QLinearConv.
    for packed in (_PACKED, ()):
        try:
            open_session(
                whole.path,
                SessionSettings(optimised_path=str(path), entries=(*_SAVING, *packed)),
                where=whole.where,
                nodes=file.model.graph.node,
            )
            return _read_optimised(path, workspace, whole.where)
        except HeadwayError as error:
            if not notes:
                # Raises if it is the model itself that is refused.
                open_session(whole.path, SessionSettings(), where=whole.where, nodes=file.model.graph.node)
            cause = str(error).removeprefix(f"{whole.where}: ")
            failing = "weights cannot be saved packed, so each session copies them"
            notes.append(
                f"{failing if packed else 'the optimised graph cannot be cut, so the original is'}: {cause}"
            )
    return None


def _read_optimised(path: Path, workspace: Workspace, where: str) -> _Made:
    from onnx import ModelProto

    model = ModelProto.FromString(path.read_bytes())
    name_nodes(model.graph)
    graph = ordered_graph(model, where)
    return graph, *_typed(graph, workspace, where)


def _as_it_is(file: ModelFile, workspace: Workspace, shapes: Mapping[str, tuple[int, ...]]) -> _Made:
    light = detach_weights(file.model, file.folder, workspace.folder / "original.bin", where=file.where)
    name_nodes(light.graph)
    fix_sizes(light.graph, shapes)
    graph = ordered_graph(light, file.where)
    return graph, *_typed(graph, workspace, file.where)


def _typed(graph: OrderedGraph, workspace: Workspace, where: str) -> tuple[dict[str, ValueType], Any]:
    """Types of all tensors, from a session that offers every one of them as an output."""
    from onnx import ModelProto, ValueInfoProto

    model = ModelProto()
    model.CopyFrom(graph.model)
    del model.graph.value_info[:]
    del model.graph.output[:]
    stated = {value.name: value for value in graph.model.graph.output}
    names = [*graph.outputs, *(name for name in sorted(graph.made) if name not in stated)]
    # Stated types of outputs may be stale, so that they too are left to inference where nodes make them.
    made = graph.made
    for name in names:
        model.graph.output.append(ValueInfoProto(name=name) if name in made else stated[name])
    path = workspace.folder / "types.onnx"
    path.write_bytes(model.SerializeToString())
    session = open_session(
        path, SessionSettings(optimise=False, entries=_TYPES_ONLY), where=where, nodes=graph.nodes
    )
    path.unlink()
    found = (*session.get_inputs(), *session.get_overridable_initializers(), *session.get_outputs())
    return {value.name: parse_type(value.type, value.shape) for value in found}, session


def _sizes(
    graph: OrderedGraph,
    types: Mapping[str, ValueType],
    session: Any,
    sample: Inputs | None,
    shapes: Mapping[str, tuple[int, ...]],
    where: str,
) -> tuple[dict[str, int], str]:
    """Bytes of tensors: those fixed from types, others from a run; and what kept that run from telling."""
    sizes = {name: value.bytes for name, value in types.items() if value.bytes is not None}
    unknown = [name for name in dict.fromkeys((*graph.outputs, *sorted(graph.made))) if name not in sizes]
    problem = ""
    inputs = {name: types[name] for name in graph.inputs}
    attempts = [sample] if sample is not None else [
        sample_inputs(inputs, shapes, seed=0, integer=integer) for integer in (0, 1)
    ]  # fmt: skip
    for feeds in attempts if unknown else []:
        try:
            with TimeLimit() as limit:
                results = session.run(unknown, dict(feeds), limit.options)
        except Exception as error:
            # ONNX Runtime's exceptions have no common base class but this one.
            failure = run_failure(error, where, limit)
            if limit.expired:
                raise failure from error  # other inputs would take as long again
            problem = f"sizes that vary are not known: {failure}"
            continue
        sizes.update({name: _bytes(result) for name, result in zip(unknown, results, strict=True)})
        problem = ""
        break
    return sizes, problem


def _bytes(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(_bytes(member) for member in value)
    if isinstance(value, dict):
        return sum(_bytes(member) for member in value.values())
    return int(getattr(value, "nbytes", 0))
