"""One point of the comparison of lane policies: some models, a load and SLAs, simulated under a policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from headway.config.arrivals import Poisson
from headway.core.checks import PolicyError
from headway.core.decision_time import DecisionTimes
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.messages import Arrive, Reply
from headway.core.protocols import Skip
from headway.cost.contention import PairOverlap, fluid_loss
from headway.cost.lanes import LaneTable
from headway.policies import make
from headway.predict.overlap import ConstantOverlap, FluidOverlap
from headway.record.block_figures import block_figures
from headway.record.log import MemoryLog
from headway.sim.driver import Simulation
from headway.sim.noise import LogNormalNoise
from headway.sim.pairs import HiddenLoss, MeetingNoise
from headway.wiring.beliefs import PRIOR_W, lane_belief
from headway.wiring.block_world import LANES, block_tables
from headway.workload.draws import stream
from headway.workload.sources import ScenarioSource, TenantLoad

DEVIATION: Final = 0.1
"""How far true losses stray from the fluid rule, as a standard deviation of w."""

MEETING_NOISE: Final = 0.03
NOISE: Final = 0.05
"""Of times alone, as a standard deviation of the logarithm."""

FIRST_REQUESTS: Final = 100
NEW_MODEL_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """What is simulated once. `utilisation` 1 is one request after the other, each as fast as it can be,
    without a pause; every model brings the same work. `sla` is a multiple of the time alone.

    With `newcomers` a new model comes every ten seconds and the oldest goes, so that the load stays the same;
    nobody was told of it beforehand, and its blocks were timed alone when it came.
    """

    device: str
    models: int
    utilisation: float
    sla: float
    seed: int
    requests: int
    newcomers: bool = False

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class PreparedPoint:
    """A point with its models, arrivals and truth, which all policies share."""

    def __init__(self, point: BlockPoint) -> None:
        """Raises HeadwayError for an unknown device, and numbers that make no load."""
        if point.models < 1 or point.requests < 1 or not (point.utilisation > 0 and point.sla > 0):
            raise HeadwayError(f"{point}; accepted: at least one model and request, a load and SLA above 0")
        self._point = point
        models = point.models
        self._tables = block_tables(point.device, models, point.seed)
        rate_s = _rate_s(point, self._tables)
        self._duration_s = point.requests / rate_s
        self._windows: dict[str, tuple[float, float]] = {}
        if point.newcomers:
            changes = int(self._duration_s / NEW_MODEL_EVERY_S)
            self._tables = block_tables(point.device, models, point.seed, changes)
            for at, name in enumerate(self._tables):
                begin_s = max(0, at - models + 1) * NEW_MODEL_EVERY_S
                self._windows[name] = (begin_s, (at + 1) * NEW_MODEL_EVERY_S)
        self._profiled = tuple(self._tables)[:models]
        self._truth = HiddenLoss(fluid_loss, DEVIATION, partial(stream, point.seed, "overlap"))
        self._loads = [
            TenantLoad(
                name,
                name,
                table.blocks,
                table.isolated_s,
                point.sla * table.isolated_s,
                Poisson.model_validate(
                    {
                        "process": "poisson",
                        "rate": f"{point.utilisation / models / table.isolated_s:.9g} /s",
                    }
                ),
            )
            for name, table in self._tables.items()
        ]

    def run(self, policy: str, decision_times: DecisionTimes | None = None) -> Mapping[str, float | None]:
        """Simulate under a policy and give the figures of `headway.record.block_figures`.

        `decision_times` records what the policy's decisions take.
        Raises HeadwayError for an unknown policy, and one that fails.
        """
        point = self._point
        chosen = make(policy)
        noise = LogNormalNoise(NOISE, partial(stream, point.seed, "noise"))
        estimator = lane_belief(
            chosen.estimator,
            LANES,
            self._tables,
            FluidOverlap(),
            point.seed,
            teacher=lambda: self._truth,
            without_fluid=lambda: ConstantOverlap(PRIOR_W),
            noise=lambda: noise,
            profiled=self._profiled,
        )
        chance = MeetingNoise(MEETING_NOISE, partial(stream, point.seed, "overlap"))
        log = MemoryLog({})
        engine = Engine(LANES, chosen, estimator, estimator.contention, log, decision_times=decision_times)
        contention = PairOverlap(self._truth, chance=chance)
        try:
            Simulation(engine, self._source(), LANES, self._tables, contention, noise).run()
        except PolicyError as error:
            raise HeadwayError(f"policy {policy!r} failed at {engine.now:.9g} s: {error}") from error
        newcomers = [name for name, (begin_s, _) in self._windows.items() if begin_s > 0.0]
        return block_figures(log.table(), self._duration_s, newcomers, FIRST_REQUESTS)

    def _source(self) -> _Windowed:
        source = ScenarioSource(self._loads, self._point.seed, duration_s=self._duration_s)
        return _Windowed(source, self._windows)


class _Windowed:
    """A source of which each tenant asks only within its window of time, if it has one. Implements
    `headway.core.protocols.Source`."""

    def __init__(self, source: ScenarioSource, windows: Mapping[str, tuple[float, float]]) -> None:
        self._source = source
        self._windows = windows

    def first(self) -> Iterator[Arrive]:
        """Arrivals, in order of time."""
        for arrive in self._source.first():
            begin_s, end_s = self._windows.get(arrive.request.tenant, (0.0, float("inf")))
            if begin_s <= arrive.request.arrival_s < end_s:
                yield arrive

    def after(self, reply: Reply, now: float) -> Iterable[Arrive | Skip]:
        """What a reply causes."""
        return self._source.after(reply, now)


def _rate_s(point: BlockPoint, tables: Mapping[str, LaneTable]) -> float:
    """Requests a second of all models together."""
    return sum(point.utilisation / point.models / table.isolated_s for table in tables.values())
