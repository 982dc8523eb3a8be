"""What running costs here beside the blocks themselves, measured at start-up on made-up work.

No model of a tenant takes part, so that a model uploaded later is priced by the same numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations_with_replacement
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

from headway.core.device import Core
from headway.core.messages import Finish
from headway.core.protocols import Executor
from headway.core.request import Request
from headway.live.clock import WallClock
from headway.live.executors.lanes import lone_run
from headway.live.executors.makers import NullLanes
from headway.live.executors.null import NullExecutor
from headway.live.executors.process import ProcessExecutor
from headway.live.processors import machine, runtime, staying_on
from headway.live.thread_ranks import give_way
from headway.models.profile import DeviceProfile

_DISPATCHES: Final = 200
_ROUNDS: Final = 15
_SWITCHES: Final = 40
_REPEATS: Final = 4  # calls in one measured stretch, so that starting threads together matters little

BURST_S: Final = 10e-3

MOVING_SHARE: Final = 0.1
"""How much of models' time goes to operators that only move memory: 0.00 to 0.27, 0.08 in the mean of twelve
models of the zoo (resnet50 and 18, mobilenet_v2, squeezenet, efficientnet_b0, bert_small, distilbert,
densenet121, shufflenet_v2, unet, gpt2_small_decode, swin_tiny) by ONNX Runtime's profiler on one thread of an
AMD EPYC, all but convolutions, matrix products and recurrences counted; 2026-11-30."""

SERIAL_W: Final = 1.0
"""The overlap loss where there is only one lane: nothing can run beside anything."""


def measure_overheads(lanes: Sequence[Sequence[int]], *, pin: bool = True) -> DeviceProfile:
    """Measure dispatch, switch and overlap on these lanes; it takes about a second.

    Args:
        lanes: for each core, by index, the numbers of its processors.
        pin: as for the executors.
    """
    return DeviceProfile(
        machine=machine(),
        runtime=runtime(),
        threads=sum(len(lane) for lane in lanes),
        dispatch_s=measure_dispatch_s(lanes, pin=pin),
        switch_s=measure_switch_s(lanes[0] if pin else ()),
        overlap_w=measure_overlap_w(lanes, pin=pin),
    )


def measure_dispatch_s(lanes: Sequence[Sequence[int]], *, pin: bool = True) -> float:
    """Seconds from handing over a run to hearing of its end, if its block takes no time; a median.

    Waking the lane's thread and waking the driver's are in it, deciding is not.
    """
    return _dispatch_s(NullExecutor({"": (0.0,)}, lanes, pin=pin), len(lanes[0]))


@dataclass(frozen=True, slots=True)
class IsolationCost:
    """What `isolation: process` costs.

    `dispatch_s` is by how much handing a run over and hearing of its end takes longer through the pipe, a
    median. `start_s` is how long a process takes from being started to serving, without models: for so long
    no lane works after one has died.
    """

    dispatch_s: float
    start_s: float


def measure_isolation(lanes: Sequence[Sequence[int]], *, pin: bool = True) -> IsolationCost:
    """Measure a child process against threads of this one; it takes about a second."""
    within_s = measure_dispatch_s(lanes, pin=pin)
    started_s = perf_counter()
    executor = ProcessExecutor(NullLanes({"": (0.0,)}, lanes, pin=pin))
    start_s = perf_counter() - started_s
    return IsolationCost(_dispatch_s(executor, len(lanes[0])) - within_s, start_s)


def _dispatch_s(executor: Executor, threads: int) -> float:
    clock = WallClock()
    executor.connect(clock.post, clock)
    lane, times = Core.lane(0, threads), []
    try:
        for id in range(_DISPATCHES):
            started_s = clock.now()
            request = Request(id, "", id, "", started_s, started_s, 1, 0.0)
            executor.start(lone_run(id, request, (lane,), started_s))
            while not isinstance(clock.wait(None)[-1], Finish):
                pass
            times.append(clock.now() - started_s)
    finally:
        executor.close()
    return median(times)


def measure_switch_s(processors: Sequence[int]) -> float:
    """How much longer a block takes after another model's than after its own, in seconds; a median.

    The block multiplies by two megabytes of weights; the other one moves twelve, as a model's block may.
    """
    block, other = _Work.products(), _Work.copies()
    differences = []
    with staying_on(processors):
        block.run()
        other.run()
        for _ in range(_SWITCHES):
            other.run()
            after_other_s = block.run()
            after_own_s = block.run()
            differences.append(after_other_s - after_own_s)
    return max(0.0, median(differences))


class Reference:
    """Made-up work that runs in turn with what is measured, to see how the machine's speed varies.

    Bare sessions of one thread multiply small matrices, one session on each lane and all at once. They work
    for BURST_S and pause for as long, as lanes do at middling load: where other programs want the processors,
    who never pauses waits longer for them, and who pauses often hardly at all.
    """

    def __init__(self, lanes: Sequence[Sequence[int]], *, pin: bool = True) -> None:
        """Open the sessions; arguments as for `measure_overheads`."""
        self._parts = [(_Work.products(), lane if pin else ()) for lane in lanes]

    def run(self, seconds: float) -> list[list[tuple[float, float]]]:
        """For each lane, when each run began, by the system's monotonic clock, and what it took, for so many
        seconds; the first run of each, which finds caches full of other things, is left out."""
        until_s = perf_counter() + seconds
        found: list[list[tuple[float, float]]] = [[] for _ in self._parts]

        def work(index: int) -> None:
            part, processors = self._parts[index]
            give_way()  # as lanes do
            with staying_on(processors):
                part.run()
                pause_s = perf_counter() + BURST_S
                while (began_s := perf_counter()) < until_s:
                    found[index].append((began_s, part.run()))
                    if began_s > pause_s:
                        sleep(BURST_S)
                        pause_s = perf_counter() + BURST_S

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(found))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


def measure_overlap_w(lanes: Sequence[Sequence[int]], *, pin: bool = True) -> float:
    """The overlap loss w of two lanes: together they take max + w * min of what they take alone.

    Pairs of work that computes and work that moves memory run on the first two lanes, alone and together in
    turns; the median over rounds of each pair, averaged over the pairs as often as they should meet if
    MOVING_SHARE of the time goes to work that moves memory. Not below 0; above 1 is possible (together is
    slower than one after the other). With one lane it is 1.
    """
    if len(lanes) < 2:
        return SERIAL_W
    shares = {_Work.products: 1.0 - MOVING_SHARE, _Work.copies: MOVING_SHARE}
    loss = 0.0
    for first, second in combinations_with_replacement(shares, 2):
        met = shares[first] * shares[second] * (1.0 if first is second else 2.0)
        loss += met * _pair_loss(first(), second(), lanes[:2] if pin else ((), ()))
    return max(0.0, loss)


@dataclass(frozen=True, slots=True)
class _Work:
    """A session of one thread with its bound tensors."""

    session: Any
    binding: Any

    @classmethod
    def products(cls) -> _Work:
        """Two matrix products whose weights take two megabytes: as most blocks, they compute."""
        return cls._of("MatMul", (64, 512), ((512, 512), (512, 512)))

    @classmethod
    def copies(cls) -> _Work:
        """A sum that moves twelve megabytes: it waits for memory."""
        return cls._of("Add", (1024, 1024), ((1024, 1024),))

    @classmethod
    def _of(cls, op: str, shape: tuple[int, ...], weights: Sequence[tuple[int, ...]]) -> _Work:
        import numpy as np
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper

        from headway.models.runtime_session import SessionSettings, session_options

        nodes = [
            helper.make_node(op, [f"t{index}", f"w{index}"], [f"t{index + 1}"])
            for index in range(len(weights))
        ]
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name in ("t0", f"t{len(weights)}")
        ]
        stored = [
            numpy_helper.from_array(np.full(size, 1.0 / size[0], dtype=np.float32), f"w{index}")
            for index, size in enumerate(weights)
        ]
        graph = helper.make_graph(nodes, "work", ends[:1], ends[1:], stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            session_options(SessionSettings(optimise=False, shared_arena=True)),
            providers=["CPUExecutionProvider"],
        )
        binding = session.io_binding()
        for bind, name in ((binding.bind_ortvalue_input, "t0"), (binding.bind_ortvalue_output, ends[1].name)):
            bind(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(shape, dtype=np.float32)))
        return cls(session, binding)

    def run(self) -> float:
        """Seconds of one run."""
        started_s = perf_counter()
        self.session.run_with_iobinding(self.binding, None)
        return perf_counter() - started_s


def _pair_loss(first: _Work, second: _Work, lanes: Sequence[Sequence[int]]) -> float:
    """The median over rounds of (together - longer) / shorter, each alone in the same round."""
    # Both take about as long, so that the quotient is well conditioned.
    counts = [_REPEATS, _REPEATS]
    spent = [min(work.run() for _ in range(3)) for work in (first, second)]
    faster = spent.index(min(spent))
    counts[faster] = max(_REPEATS, round(_REPEATS * max(spent) / min(spent)))
    losses = []
    pair = ((first, counts[0], lanes[0]), (second, counts[1], lanes[1]))
    for _ in range(_ROUNDS):
        alone = [_together((part,)) for part in pair]
        losses.append((_together(pair) - max(alone)) / min(alone))
    return median(losses)


def _together(parts: Sequence[tuple[_Work, int, Sequence[int]]]) -> float:
    """Seconds until all parts are done, each on a thread of its own that starts with the others."""
    barrier = threading.Barrier(len(parts))
    begun, ended = [0.0] * len(parts), [0.0] * len(parts)

    def work(index: int) -> None:
        part, count, processors = parts[index]
        with staying_on(processors), suppress(threading.BrokenBarrierError):
            barrier.wait()
            begun[index] = perf_counter()
            for _ in range(count):
                part.run()
            ended[index] = perf_counter()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(parts))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        barrier.abort()  # or those that wait for one that was not started would do so for ever
        raise
    return max(ended) - min(begun)
