"""Taking a model in: measure its nodes, split it evenly by that, and measure its blocks alone.

No pair of models is ever measured together: what co-runners do to each other is one number of the device.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.live.cache import ProfileCache
from headway.live.node_profile import ProfiledNodes, input_candidates, profiled_nodes
from headway.live.probes import probed_slowdowns
from headway.live.processors import machine, runtime
from headway.live.rehearsal import ROUNDS, Measurement, measure, measure_batches
from headway.models.batch_axis import batch_sizes
from headway.models.block_sessions import BRIEF_SPINNING
from headway.models.block_work import block_work
from headway.models.chain import SplitModel
from headway.models.even import BlockLimits
from headway.models.prepared import PreparedModel, prepare
from headway.models.profile import BlockProfile, ModelProfile
from headway.models.sample_inputs import Inputs
from headway.models.split import split

if TYPE_CHECKING:
    from onnx import ModelProto

    Source = str | os.PathLike[str] | ModelProto


_FAR_OVER: Final = 2.0
"""How many times what boundaries may cost they have to be measured at before fewer blocks are tried."""


@dataclass(frozen=True, eq=False)
class Intake:
    """A model ready to run: its blocks, inputs made for it, and its profile.

    `cached` tells that the profile was measured earlier, `measured_s` when (seconds since the epoch).
    `said` is what a user should know of it: why it was measured again, and that the machine was busy.
    """

    split: SplitModel
    inputs: Mapping[str, Any]
    profile: ModelProfile
    cached: bool
    said: tuple[str, ...] = ()
    measured_s: float = 0.0


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
    probed_beside: Sequence[int] = (),
    most_batch: int = 1,
) -> Intake:
    """Split a model and measure it, or find that it was measured before.

    Blocks are even at the smallest width, where they are longest, by what ONNX Runtime's profiler says that
    each node takes. They and the whole model are then run in turns, `rounds` times at each width, more
    often if they are short, and twice if they are not and the times agree. If that shows the boundaries to
    cost more than twice what they may, longer blocks are measured too, and taken if they cost less. Most of
    what a ResNet-50 takes are seven runs, and ONNX Runtime optimising it.

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
        probed_beside: processors of another lane, on which probes run while blocks are replayed at the
            smallest width; none leaves probing out.
        most_batch: how many requests shall be able to run together; powers of two up to that are measured.

    Raises:
        HeadwayError: a model that cannot be read or run, or whose requests cannot run together.
    """
    started_s = perf_counter()
    sizes = batch_sizes(most_batch) if most_batch > 1 else ()
    prepared = prepare(source, dims={} if dims is None else dims, sample=sample, batches=bool(sizes))
    known = name or prepared.name
    narrow = min(widths)
    identity: tuple[object, ...] = (
        prepared.content_hash,
        sorted((dims or {}).items()),
        limits or BlockLimits(),
        narrow,
        BRIEF_SPINNING,
    )
    if sizes:
        identity += (sizes,)
    said: tuple[str, ...] = ()
    if cache is not None:
        known_profile, reason, measured_s = cache.find(known, identity)
        if known_profile is not None:
            reused = _reuse(prepared, known_profile, widths)
            if reused is not None:
                inputs = _runnable_inputs(reused, prepared, sample, seed)
                return Intake(reused, inputs, known_profile, cached=True, measured_s=measured_s)
        said = (reason,) if reason else ()
    first = _first(source, prepared, narrow, widths[narrow], dims, limits, sample, seed, rounds)
    times, whole, chain = first.times, first.whole, first.chain
    inputs, works, node_s = times.inputs, times.works, times.node_s
    found = {narrow: first.measured}
    wanted = limits or BlockLimits()
    if found[narrow].lowest_share > _FAR_OVER * wanted.overhead_share and wanted.target_s < wanted.longest_s:
        # Boundaries cost far more than they were chosen by, so that fewer blocks are worth a try.
        fewer = times.blocks(narrow, replace(wanted, target_s=wanted.longest_s))
        if len(fewer.blocks) < len(chain.blocks):
            of_fewer = measure(fewer, whole, widths[narrow], inputs, rounds)
            if of_fewer.share < found[narrow].share:
                chain, found[narrow] = fewer, of_fewer
    for width, processors in sorted(widths.items()):
        if width != narrow:
            found[width] = measure(chain, whole, processors, inputs, rounds)
    batches = {
        width: measure_batches(chain, processors, inputs, sizes, rounds)
        for width, processors in sorted(widths.items())
        if sizes
    }
    block_works = [
        block_work(works[block.first_node : block.end_node], node_s[block.first_node : block.end_node])
        for block in chain.blocks
    ]
    slowdowns: Sequence[Mapping[str, float]] = [{} for _ in chain.blocks]
    if probed_beside:
        slowdowns = probed_slowdowns(chain, block_works, inputs, widths[narrow], probed_beside)
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
                {width: measured.blocks[block.index] for width, measured in found.items()},
                block_works[block.index],
                slowdowns[block.index],
                {
                    size: {width: times[size][block.index] for width, times in batches.items()}
                    for size in sizes
                },
            )
            for block in chain.blocks
        ),
        whole_seconds={width: measured.whole for width, measured in found.items()},
        boundary_share={width: measured.share for width, measured in found.items()},
        private_bytes={width: measured.private_bytes for width, measured in found.items()},
        intake_s=perf_counter() - started_s,
        notes=(*chain.notes, *((chain.reason,) if chain.reason else ())),
        unsteady=next((measured.unsteady for measured in found.values() if measured.unsteady), ""),
    )
    if cache is not None:
        cache.keep(profile, identity)
    if profile.unsteady:
        kept = "; it will be measured again next time" if cache is not None else ""
        said += (f"{known}: was profiled on a busy machine ({profile.unsteady}){kept}",)
    return Intake(chain, inputs, profile, cached=False, said=said, measured_s=time())


@dataclass(frozen=True, slots=True)
class _First:
    """Even blocks beside the whole, as measured at the smallest width."""

    times: ProfiledNodes
    whole: SplitModel
    chain: SplitModel
    measured: Measurement


def _first(
    source: Source,
    prepared: PreparedModel,
    width: int,
    processors: Sequence[int],
    dims: Mapping[str, int] | None,
    limits: BlockLimits | None,
    sample: Inputs | None,
    seed: int,
    rounds: int,
) -> _First:
    """Even blocks by what nodes take; of the original graph if those of the optimised one do not run."""

    def attempt(prepared: PreparedModel) -> _First:
        with profiled_nodes(prepared, processors, sample, seed) as (times, whole, warm):
            chain = times.blocks(width, limits)
            measured = measure(chain, whole, processors, times.inputs, rounds, warm)
        return _First(times, replace(whole, profile_prefix=""), chain, measured)

    try:
        return attempt(prepared)
    except HeadwayError as error:
        if not prepared.optimised:
            raise
        plain = prepare(
            source,
            dims={} if dims is None else dims,
            optimise=False,
            sample=sample,
            batches=bool(prepared.rows),
        )
        note = f"the optimised graph cannot be cut, so the original is: {error}"
        return attempt(replace(plain, notes=(*plain.notes, note)))


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


def _runnable_inputs(
    chain: SplitModel, prepared: PreparedModel, sample: Inputs | None, seed: int
) -> Mapping[str, Any]:
    """The first of the candidates that the chain runs on."""
    *others, last = input_candidates(prepared, sample, seed)
    for inputs in others:
        with suppress(HeadwayError):
            chain.run(inputs)
            return inputs
    return last
