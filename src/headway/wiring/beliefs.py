"""What a policy believes of costs, and what is true of overlaps in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from headway.config import LaneHardware, StreamHardware
from headway.core.block import Segment
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.core.protocols import Contention, Estimator, LogRow
from headway.cost.contention import MOST_LOSS, PairLoss, PairOverlap, fluid_loss
from headway.cost.lanes import LaneTable
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.predict.foresight import ForesightEstimator, ForesightLaneEstimator
from headway.predict.group import abacus_estimator, skadi_estimator
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.lane_models import LaneModels
from headway.predict.overlap import ConstantOverlap, FluidOverlap, KnownOverlap, OverlapModel, shipped
from headway.record.log import LogTable
from headway.sim.noise import Noise
from headway.sim.pairs import HiddenLoss, MeetingNoise
from headway.wiring.prepared import Prepared
from headway.workload.draws import stream

PRIOR_W: Final = 1.0 / 3.0
"""The loss that the ablation without a fluid base starts from on a GPU."""

_ANYWHERE: Final = ("default", "foresight")
_ON_LANES: Final = (
    *_ANYWHERE,
    "skadi",
    "abacus",
    "no-calibration",
    "no-margin",
    "no-fluid",
    "oracle-overlap",
)
_NEED_TRUTH: Final = ("foresight", "oracle-overlap")


def truth(prepared: Prepared) -> Contention:
    """What co-runners do to each other in the simulator, whatever anybody believes."""
    hardware = prepared.scenario.hardware
    if not isinstance(hardware, LaneHardware | StreamHardware):
        return prepared.contention()
    if hardware.overlap != "predicted" and not (hardware.overlap_deviation or hardware.overlap_noise):
        return prepared.contention()
    seed = prepared.scenario.seed

    def draws(*names: str | int) -> Any:
        return stream(seed, "overlap", *names)

    chance = MeetingNoise(hardware.overlap_noise, draws) if hardware.overlap_noise else None
    return PairOverlap(true_loss(prepared), chance=chance)


def true_loss(prepared: Prepared) -> PairLoss:
    """The loss of two segments in the simulator, chance aside: what is believed at first, and what is hidden.

    It follows from the seed, so that it is the same whenever it is asked for.
    """
    hardware = prepared.scenario.hardware
    assert isinstance(hardware, LaneHardware | StreamHardware)
    seed = prepared.scenario.seed

    def draws(*names: str | int) -> Any:
        return stream(seed, "overlap", *names)

    base = _base(prepared)
    most = max(MOST_LOSS, overlap_model(prepared).most)
    return HiddenLoss(base, hardware.overlap_deviation, draws, most)


def overlap_model(prepared: Prepared) -> OverlapModel:
    """What is believed of overlaps before anything was seen."""
    hardware = prepared.scenario.hardware
    assert isinstance(hardware, LaneHardware | StreamHardware)
    if hardware.overlap == "predicted":
        return FluidOverlap() if isinstance(hardware, StreamHardware) else shipped()
    if hardware.overlap_w is not None:
        return ConstantOverlap(hardware.overlap_w)
    assert prepared.measured is not None
    return ConstantOverlap(prepared.measured.overlap_w)


def belief(prepared: Prepared, policy: Policy, *, live: bool = False) -> tuple[Estimator, Contention]:
    """What tells a policy about costs, and the rule by which the engine expects runs to end.

    Raises HeadwayError if the policy names an estimator that there is not, or that needs a truth which a live
    run cannot know.
    """
    named = getattr(policy, "estimator", "default")
    on_lanes = prepared.device.has_lanes
    accepted = tuple(
        name for name in (_ON_LANES if on_lanes else _ANYWHERE) if not (live and name in _NEED_TRUTH)
    )
    if named not in accepted:
        raise HeadwayError(
            f"policy {type(policy).__name__}: estimator is {named!r}; accepted"
            f"{' live' if live else ''} on {'lanes' if on_lanes else 'an accelerator'}: "
            + ", ".join(map(repr, accepted))
        )
    if on_lanes:
        estimator = _of_lanes(prepared, named, live=live)
        return estimator, estimator.contention
    rule = prepared.contention()
    if named == "foresight":
        return ForesightEstimator(prepared.device, prepared.tables, rule, prepared.noise()), rule
    return AnalyticEstimator(prepared.device, prepared.tables, rule), rule


def replay(prepared: Prepared, policy: Policy, log: LogTable) -> LaneEstimator:
    """The belief on lanes as it was at the end of a run of that scenario under that policy, learnt from the
    run's log alone.

    Raises HeadwayError for a device without lanes, and as `belief` does.
    """
    if not prepared.device.has_lanes:
        raise HeadwayError(f"{prepared.device.name!r} has no lanes; accepted: logs of runs on lanes")
    estimator, _ = belief(prepared, policy)
    assert isinstance(estimator, LaneEstimator)
    for row in log.table.to_pylist():
        estimator.observe(LogRow(**row))
    return estimator


def _of_lanes(prepared: Prepared, named: str, *, live: bool) -> LaneEstimator:
    return lane_belief(
        named,
        prepared.device,
        _lane_tables(prepared),
        overlap_model(prepared),
        prepared.scenario.seed,
        teacher=lambda: _base(prepared) if live else true_loss(prepared),
        without_fluid=lambda: _without_fluid(prepared),
        noise=prepared.noise,
    )


def lane_belief(
    named: str,
    device: Device,
    tables: Mapping[str, LaneTable],
    overlap: OverlapModel,
    seed: int,
    *,
    teacher: Callable[[], PairLoss],
    without_fluid: Callable[[], OverlapModel],
    noise: Callable[[], Noise],
    profiled: Collection[str] | None = None,
) -> LaneEstimator:
    """The estimator of that name on lanes.

    `overlap` is what is believed of overlaps before anything was seen, `teacher` the losses that groups are
    labelled with, which are the truth in a simulation. Groups are made of the models `profiled`, by default
    all.
    """
    if named in ("skadi", "abacus"):
        build = skadi_estimator if named == "skadi" else abacus_estimator
        return build(device, tables, overlap, teacher(), seed, profiled)
    if named == "foresight":
        return ForesightLaneEstimator(device, tables, KnownOverlap(teacher()), noise())
    if named == "oracle-overlap":
        return LaneEstimator(device, tables, KnownOverlap(teacher()))
    if named == "no-fluid":
        return LaneEstimator(device, tables, without_fluid())
    return LaneEstimator(
        device, tables, overlap, learns=named != "no-calibration", margins=named != "no-margin"
    )


def _without_fluid(prepared: Prepared) -> OverlapModel:
    hardware = prepared.scenario.hardware
    if isinstance(hardware, StreamHardware):
        return ConstantOverlap(PRIOR_W)
    return shipped(with_fluid=False)


def _lane_tables(prepared: Prepared) -> Mapping[str, LaneTable]:
    tables: dict[str, LaneTable] = {}
    for key, table in prepared.tables.items():
        assert isinstance(table, LaneTable)
        tables[key] = table
    return tables


def _base(prepared: Prepared) -> PairLoss:
    """The rule from which both belief and truth start."""
    hardware = prepared.scenario.hardware
    if isinstance(hardware, StreamHardware) and hardware.overlap == "predicted":
        return fluid_loss
    models = LaneModels(_lane_tables(prepared), overlap_model(prepared))

    def loss(first: Segment, second: Segment) -> float:
        one, other = first.pressure, second.pressure
        assert one is not None
        assert other is not None
        return models.loss(one.model, one.lanes, one.block, other.model, other.lanes, other.block)

    return loss
