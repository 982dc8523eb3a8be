"""Taking a model in: split it, measure its blocks alone, split it again by what was measured.

No pair of models is ever measured together: what co-runners do to each other is one number of the device.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.request import Request
from headway.live.cache import ProfileCache
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor, ReplayInputs
from headway.live.processors import machine, runtime
from headway.models.boundary_cost import boundary_cost
from headway.models.chain import SplitModel
from headway.models.even import BlockLimits
from headway.models.node_times import estimated_node_s
from headway.models.prepared import PreparedModel, prepare
from headway.models.profile import BlockProfile, ModelProfile, Timing
from headway.models.sample_inputs import Inputs
from headway.models.split import resplit, split

if TYPE_CHECKING:
    from onnx import ModelProto

    Source = str | os.PathLike[str] | ModelProto

ROUNDS: Final = 3
MOST_ROUNDS: Final = 20
ROUNDS_S: Final = 0.1
"""Short models are measured more often, for up to this long at each width."""

_FIRST_RUNS: Final = 3

_REST_S: Final = 1e-3
_OTHER_BYTES: Final = 8 << 20  # more than a core's own caches hold


@dataclass(frozen=True, eq=False)
class Intake:
    """A model ready to run: its blocks, inputs made for it, and its profile.

    `cached` tells that the profile was measured earlier.
    """

    split: SplitModel
    inputs: Mapping[str, Any]
    profile: ModelProfile
    cached: bool


def take_in(
    source: Source,
    widths: Mapping[int, Sequence[int]],
    *,
    name: str = "",
    dims: Mapping[str, int] | None = None,
    limits: BlockLimits | None = None,
    sample: Inputs | None = None,
    seed: int = 0,
    cache: ProfileCache | None = None,
    rounds: int = ROUNDS,
) -> Intake:
    """Split a model and measure it, or find that it was measured before.

    Blocks are even at the smallest width, where they are longest. The first split goes by estimated times of
    nodes, and is measured once; the second goes by that. Its blocks and the whole model are then run in
    turns, `rounds` times at each width, or more often if they are short. A ResNet-50 takes about a second
    for one width, of which half is ONNX Runtime optimising it.

    Args:
        source: a file or a model in memory.
        widths: numbers of threads, each with the processors to measure it on.
        name: under which the engine knows the model; by default its own.
        dims: sizes of symbolic dimensions, as `headway.models.prepared.prepare` takes them.
        limits: how long blocks shall be.
        sample: inputs to run it on; made up by default.
        seed: of made-up inputs.
        cache: where profiles are kept; None measures without looking and keeps nothing.
        rounds: how often to measure at least.

    Raises:
        HeadwayError: a model that cannot be read or run.
    """
    started_s = perf_counter()
    prepared = prepare(source, dims={} if dims is None else dims, sample=sample)
    known = name or prepared.name
    narrow = min(widths)
    identity = (prepared.content_hash, sorted((dims or {}).items()), limits or BlockLimits(), narrow)
    notes: tuple[str, ...] = ()
    if cache is not None:
        found = cache.find(known, identity)
        if found.profile is not None:
            reused = _reuse(prepared, found.profile, widths)
            if reused is not None:
                inputs = _runnable_inputs(reused, prepared, sample, seed)
                return Intake(reused, inputs, found.profile, cached=True)
        notes = (found.reason,) if found.reason else ()
    prepared, first = _first_split(source, prepared, narrow, dims, limits, sample)
    inputs = _runnable_inputs(first, prepared, sample, seed)
    with _Rehearsals(first, widths[narrow], inputs) as rehearsals:
        block_s = rehearsals.least(_FIRST_RUNS)
    cost = boundary_cost(narrow)
    chain = (
        resplit(prepared, first, block_s, threads=narrow, limits=limits, cost=cost) if first.node_s else first
    )
    whole = split(prepared, ())
    blocks: dict[int, list[Timing]] = {}
    wholes: dict[int, Timing] = {}
    shares: dict[int, float] = {}
    private: dict[int, int | None] = {}
    for width, processors in sorted(widths.items()):
        with (
            _Rehearsals(chain, processors, inputs) as of_chain,
            _Rehearsals(whole, processors, inputs) as of_whole,
        ):
            runs = _in_turns(of_chain, of_whole, rounds)
            private[width] = of_chain.private_bytes
        blocks[width] = [Timing.of(column) for column in zip(*(chain_s for chain_s, _ in runs), strict=True)]
        wholes[width] = Timing.of(whole_s for _, whole_s in runs)
        shares[width] = median(sum(chain_s) for chain_s, _ in runs) / wholes[width].median_s - 1.0
    profile = ModelProfile(
        model=known,
        content_hash=prepared.content_hash,
        machine=machine(),
        runtime=runtime(),
        positions=chain.positions,
        blocks=tuple(
            BlockProfile(
                block.name,
                block.content_hash,
                block.crossing_bytes,
                block.ops,
                {width: timings[block.index] for width, timings in blocks.items()},
            )
            for block in chain.blocks
        ),
        whole_seconds=wholes,
        boundary_share=shares,
        private_bytes=private,
        intake_s=perf_counter() - started_s,
        notes=(*notes, *chain.notes, *((chain.reason,) if chain.reason else ())),
    )
    if cache is not None:
        cache.keep(replace(profile, notes=profile.notes[len(notes) :]), identity)
    return Intake(chain, inputs, profile, cached=False)


class _Rehearsals:
    """One model's blocks run on the processors of one lane without an engine, opened by `with`."""

    def __init__(self, model: SplitModel, processors: Sequence[int], inputs: Inputs) -> None:
        self._blocks = len(model.blocks)
        self._cores = (Core.lane(0, len(processors)),)
        self._executor = OnnxRuntimeExecutor({"": model}, [processors], ReplayInputs({"": inputs}))

    def __enter__(self) -> _Rehearsals:
        self._executor.prepare("", self._cores)
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.close()

    @property
    def private_bytes(self) -> int | None:
        return self._executor.private_bytes

    def run(self) -> list[float]:
        """Seconds of each block in one run."""
        request = Request(0, "", 0, "", 0.0, 0.0, self._blocks, 0.0)
        return self._executor.rehearse(request, self._cores)

    def least(self, runs: int) -> list[float]:
        """The least that each block takes in several runs, of which the first warms up."""
        times = [self.run() for _ in range(runs)]
        return [min(column) for column in zip(*times[1:], strict=True)]


def _in_turns(chain: _Rehearsals, whole: _Rehearsals, rounds: int) -> list[tuple[list[float], float]]:
    """Seconds of the blocks and of the whole, again and again, after a run of each to warm up.

    In turns, since the speed of a machine that others use drifts; and each after a rest and with caches full
    of other things, since that is how requests find it: run again and again at once, a small model takes
    two thirds of the time that it takes in service.
    """
    chain.run()
    whole.run()
    other = bytearray(_OTHER_BYTES)

    def seconds(of: _Rehearsals) -> list[float]:
        sleep(_REST_S)
        other[:] = other[::-1]
        return of.run()

    runs: list[tuple[list[float], float]] = []
    started_s = perf_counter()
    while len(runs) < rounds or (len(runs) < MOST_ROUNDS and perf_counter() - started_s < ROUNDS_S):
        runs.append((seconds(chain), sum(seconds(whole))))
    return runs


def _reuse(
    prepared: PreparedModel, profile: ModelProfile, widths: Mapping[int, Sequence[int]]
) -> SplitModel | None:
    """The blocks that a profile describes, or None if it has other ones, or not all widths."""
    if not set(widths) <= set(profile.widths):
        return None
    try:
        chain = split(prepared, profile.positions)
    except HeadwayError:
        return None  # another version of the splitter has other cuts
    # Not by content: the same model optimised twice may have other names and packed weights.
    made = [tuple(block.ops) for block in chain.blocks]
    return chain if made == [tuple(block.operators) for block in profile.blocks] else None


def _first_split(
    source: Source,
    prepared: PreparedModel,
    width: int,
    dims: Mapping[str, int] | None,
    limits: BlockLimits | None,
    sample: Inputs | None,
) -> tuple[PreparedModel, SplitModel]:
    """Even blocks by estimated times; of the original graph if those of the optimised one are refused."""

    def attempt(prepared: PreparedModel) -> SplitModel:
        try:
            node_s = estimated_node_s(prepared, width)
        except HeadwayError:
            node_s = None  # the splitter measures it
        return split(
            prepared, threads=width, limits=limits, node_s=node_s, cost=boundary_cost(width), sample=sample
        )

    try:
        return prepared, attempt(prepared)
    except HeadwayError as error:
        if not prepared.optimised:
            raise
        plain = prepare(source, dims={} if dims is None else dims, optimise=False, sample=sample)
        note = f"the optimised graph cannot be cut, so the original is: {error}"
        plain = replace(plain, notes=(*plain.notes, note))
        return plain, attempt(plain)


def _runnable_inputs(
    chain: SplitModel, prepared: PreparedModel, sample: Inputs | None, seed: int
) -> Mapping[str, Any]:
    """The inputs that were given, else made-up ones; their integers are 0, or 1 where 0 does not run."""
    if sample is not None:
        return sample
    zeros = prepared.sample(seed)
    if not any("int" in value.dtype for value in prepared.inputs.values()):
        return zeros
    try:
        chain.run(zeros)
    except HeadwayError:
        return prepared.sample(seed, integer=1)
    return zeros
