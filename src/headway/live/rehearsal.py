"""A model's blocks and its whole run on one lane without an engine, to see what they take."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, sleep, thread_time
from typing import Final

from headway.core.device import Core
from headway.core.request import Request
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor, ReplayInputs
from headway.models.chain import SplitModel
from headway.models.profile import Timing
from headway.models.runtime_session import RUN_LIMIT_S
from headway.models.sample_inputs import Inputs

ROUNDS: Final = 3
FEWEST_ROUNDS: Final = 2
AGREEMENT: Final = 0.05
"""Of a model that is not short two rounds are enough if neither its chain's nor its whole's times differ by
more."""

MOST_ROUNDS: Final = 20
ROUNDS_S: Final = 0.1
"""Short models are measured more often, for up to this long at each width."""

MOST_MISSING: Final = 0.1
"""Share of the processor's time that a run may lack before the machine counts as busy."""

MOST_EXCESS: Final = 0.3
"""How much longer than the fastest run the median one may take before the machine counts as busy."""

REST_S: Final = 1e-3
OTHER_BYTES: Final = 8 << 20  # more than a core's own caches hold


class Rehearsals:
    """One model's blocks run on the processors of one lane without an engine, opened by `with`."""

    def __init__(self, model: SplitModel, processors: Sequence[int], inputs: Inputs) -> None:
        self._blocks = len(model.blocks)
        self._cores = (Core.lane(0, len(processors)),)
        self._executor = OnnxRuntimeExecutor(
            {"": model}, [processors], ReplayInputs({"": inputs}), timeout_s=RUN_LIMIT_S
        )

    def __enter__(self) -> Rehearsals:
        self._executor.prepare("", self._cores)
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()

    def end_profiling(self) -> tuple[Path, ...]:
        """Files of ONNX Runtime's profiler, if the model asks for them; later runs are not profiled."""
        return self._executor.end_profiling()

    @property
    def private_bytes(self) -> int | None:
        """Memory that the sessions took for themselves; None where the system does not tell."""
        return self._executor.private_bytes

    def run(self, batch: int = 1) -> list[float]:
        """Seconds of each block in one run of so many requests together."""
        request, *others = (Request(id, "", id, "", 0.0, 0.0, self._blocks, 0.0) for id in range(batch))
        return self._executor.rehearse(request, self._cores, others)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A chain beside its whole at one width.

    `share` is what boundaries cost as a share of the whole, the median over rounds, and `lowest_share` their
    lower quartile. `unsteady` is what `disturbance` says.
    """

    blocks: tuple[Timing, ...]
    whole: Timing
    share: float
    lowest_share: float
    private_bytes: int | None
    unsteady: str


def measure(
    chain: SplitModel,
    whole: SplitModel,
    processors: Sequence[int],
    inputs: Inputs,
    rounds: int,
    warm: Rehearsals | None = None,
) -> Measurement:
    """Run both again and again, after a run of each to warm up.

    In turns, since the speed of a machine that others use drifts; and each after a rest and with caches full
    of other things, since that is how requests find it: run again and again at once, a small model takes
    two thirds of the time that it takes in service.

    Args:
        chain: the blocks.
        whole: the same model as one block.
        processors: of the lane.
        inputs: to run both on.
        rounds: how often; short models more often, others less if the first times agree.
        warm: rehearsals of the whole that are open and have run, if there are any.
    """
    other = bytearray(OTHER_BYTES)
    on_processor_s = 0.0

    def seconds(of: Rehearsals) -> list[float]:
        nonlocal on_processor_s
        sleep(REST_S)
        other[:] = other[::-1]
        before_s = thread_time()
        times = of.run()
        on_processor_s += thread_time() - before_s
        return times

    with ExitStack() as opened:
        of_chain = opened.enter_context(Rehearsals(chain, processors, inputs))
        of_whole = warm
        if of_whole is None:
            of_whole = opened.enter_context(Rehearsals(whole, processors, inputs))
            of_whole.run()
        of_chain.run()
        runs: list[tuple[list[float], float]] = []
        started_s = perf_counter()
        while not _enough(runs, rounds, perf_counter() - started_s):
            runs.append((seconds(of_chain), sum(seconds(of_whole))))
        private_bytes = of_chain.private_bytes
    chains_s, wholes_s = [sum(times) for times, _ in runs], [whole_s for _, whole_s in runs]
    shares = sorted(chain_s / whole_s - 1.0 for chain_s, whole_s in zip(chains_s, wholes_s, strict=True))
    return Measurement(
        blocks=tuple(Timing.of(column) for column in zip(*(times for times, _ in runs), strict=True)),
        whole=Timing.of(wholes_s),
        share=median(shares),
        lowest_share=shares[len(shares) // 4],
        private_bytes=private_bytes,
        unsteady=disturbance(chains_s, wholes_s, on_processor_s if len(processors) == 1 else None),
    )


def _enough(runs: Sequence[tuple[Sequence[float], float]], rounds: int, spent_s: float) -> bool:
    if spent_s < ROUNDS_S:
        return len(runs) >= max(rounds, MOST_ROUNDS)
    if len(runs) >= rounds:
        return True
    columns = ([sum(times) for times, _ in runs], [whole_s for _, whole_s in runs])
    return len(runs) >= FEWEST_ROUNDS and all(max(each) <= (1 + AGREEMENT) * min(each) for each in columns)


def measure_batches(
    chain: SplitModel, processors: Sequence[int], inputs: Inputs, sizes: Sequence[int], rounds: int
) -> dict[int, tuple[Timing, ...]]:
    """Seconds of each block of a chain by how many requests run together, after a run of each to warm up.

    In turns and after rests, as `measure` does.
    """
    other = bytearray(OTHER_BYTES)
    runs: dict[int, list[list[float]]] = {size: [] for size in sizes}
    with Rehearsals(chain, processors, inputs) as rehearsals:
        for size in sizes:
            rehearsals.run(size)
        for _ in range(rounds):
            for size in sizes:
                sleep(REST_S)
                other[:] = other[::-1]
                runs[size].append(rehearsals.run(size))
    return {
        size: tuple(Timing.of(column) for column in zip(*times, strict=True)) for size, times in runs.items()
    }


def disturbance(chains_s: Sequence[float], wholes_s: Sequence[float], on_processor_s: float | None) -> str:
    """What shows that other work disturbed these runs; empty if nothing does.

    Other work takes the processor, which a thread that does all the work itself sees by the time that it had
    it; or it makes runs take longer than the fastest of them, as long as which all should take.
    """
    if on_processor_s is not None:
        missing = 1.0 - on_processor_s / (sum(chains_s) + sum(wholes_s))
        if missing > MOST_MISSING:
            return f"other work had {missing:.0%} of the processor's time"
    excess = max(median(times) / min(times) for times in (chains_s, wholes_s)) - 1.0
    if excess > MOST_EXCESS:
        return f"runs took {excess:.0%} longer than the fastest of them"
    return ""
