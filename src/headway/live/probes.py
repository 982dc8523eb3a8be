"""What blocks take beside fixed kernels that use up one thing each.

Three probes stand in for hardware counters, which need rights that a service has not: one multiplies small
matrices and so computes, one reads and writes more than any cache of a core holds, and one what just fits in
it. They run on another lane while the model's chain is replayed on the first. No two models run together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Final

from headway.core.errors import HeadwayError
from headway.live.processors import staying_on
from headway.live.rehearsal import Rehearsals
from headway.models.block_work import BlockWork
from headway.models.chain import SplitModel
from headway.models.runtime_session import SessionSettings, session_options
from headway.models.sample_inputs import Inputs

_PRODUCT_SIDE: Final = 192
_PRODUCTS: Final = 4
_MEMORY_ELEMENTS: Final = 16 << 20  # 64 MiB in and as much out
_CACHE_ELEMENTS: Final = 128 << 10  # half a MiB in and as much out
_LONGEST_PROBE_S: Final = 0.03
"""Short models are replayed for that long beside each probe, longer ones once."""

_MOST_REPLAYS: Final = 9
_START_LIMIT_S: Final = 10.0


def probed_slowdowns(
    chain: SplitModel,
    works: Sequence[BlockWork],
    inputs: Inputs,
    processors: Sequence[int],
    others: Sequence[int],
) -> tuple[dict[str, float], ...]:
    """For each block, by each probe's name, how many times as long it takes beside it.

    One replay is too few to tell single blocks apart, so that blocks that the same class of operators rules
    share one ratio: of their times beside the probe, added up, over their times alone just before. It is 1 at
    least. A long model runs five times in all.

    Args:
        chain: the blocks.
        works: of each.
        inputs: to run it on.
        processors: of the lane on which it runs.
        others: of the lane of the probes; none of `processors`.

    Raises:
        HeadwayError: a block that fails.
    """
    classes = [ruling_class(work) for work in works]
    found: list[dict[str, float]] = [{} for _ in works]
    with Rehearsals(chain, processors, inputs) as rehearsals:
        total_s = sum(rehearsals.run())
        replays = max(1, min(_MOST_REPLAYS, int(_LONGEST_PROBE_S / max(total_s, 1e-6))))
        alone_s = _block_s(rehearsals, replays)
        for name, probe in _probes().items():
            with _running(probe, others[:1]):
                beside_s = _block_s(rehearsals, replays)
            for kind, ratio in _ratios(classes, beside_s, alone_s).items():
                for at, own in enumerate(classes):
                    if own == kind:
                        found[at][name] = ratio
    return tuple(found)


def ruling_class(work: BlockWork) -> str:
    """The class of operators that takes the largest share of a block."""
    return max(sorted(work.operator_shares), key=lambda kind: work.operator_shares[kind], default="")


def _block_s(rehearsals: Rehearsals, replays: int) -> list[float]:
    runs = [rehearsals.run() for _ in range(replays)]
    return [median(column) for column in zip(*runs, strict=True)]


def _ratios(
    classes: Sequence[str], beside_s: Sequence[float], alone_s: Sequence[float]
) -> Mapping[str, float]:
    ratios = {}
    for kind in set(classes):
        own = [at for at, other in enumerate(classes) if other == kind]
        before_s = sum(alone_s[at] for at in own)
        ratios[kind] = max(1.0, sum(beside_s[at] for at in own) / before_s) if before_s > 0.0 else 1.0
    return ratios


@contextmanager
def _running(probe: Callable[[], None], processors: Sequence[int]) -> Iterator[None]:
    """Keep a probe running on these processors, from its first run's end on."""
    ends, warm = threading.Event(), threading.Event()

    def work() -> None:
        with staying_on(processors):
            while not ends.is_set():
                probe()
                warm.set()

    thread = threading.Thread(target=work, name="probe", daemon=True)
    thread.start()
    try:
        if not warm.wait(_START_LIMIT_S):
            raise HeadwayError(f"a probe did not run within {_START_LIMIT_S:g} s on {list(processors)}")
        yield
    finally:
        ends.set()
        thread.join()


@cache
def _probes() -> Mapping[str, Callable[[], None]]:
    """The probes, as calls that run each once on one thread."""
    side = _PRODUCT_SIDE
    return {
        "compute": _call("MatMul", (side, side), _PRODUCTS),
        "memory": _call("Relu", (_MEMORY_ELEMENTS,), 0),
        "cache": _call("Relu", (_CACHE_ELEMENTS,), 0),
    }


def _call(op: str, shape: tuple[int, ...], weights: int) -> Callable[[], None]:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node(op, [f"t{at}", *([f"w{at}"] if weights else [])], [f"t{at + 1}"])
        for at in range(max(1, weights))
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("t0", f"t{len(nodes)}")
    ]
    stored = [
        numpy_helper.from_array(np.full(shape, 1.0 / shape[0], dtype=np.float32), f"w{at}")
        for at in range(weights)
    ]
    graph = helper.make_graph(nodes, "probe", ends[:1], ends[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(),
        session_options(SessionSettings(optimise=False)),
        providers=["CPUExecutionProvider"],
    )
    binding = session.io_binding()
    for bind, value in ((binding.bind_ortvalue_input, ends[0]), (binding.bind_ortvalue_output, ends[1])):
        bind(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(shape, dtype=np.float32)))

    def run() -> None:
        session.run_with_iobinding(binding, None)

    return run
