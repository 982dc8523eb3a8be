"""Small devices, cost tables and requests made by hand, for tests of policies and of the engine.

device = toy_device(2)
tables = {"m": ToyTable(device, [(1e-3, 1e5), (2e-3, 0.0)])}
log = play(make("edf"), device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=5e-3)])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headway.core.block import Mode, Option, Pressure, Segment
from headway.core.decision_time import DecisionCharge
from headway.core.device import Core, Dataflow, Device, Link
from headway.core.engine import Engine
from headway.core.messages import Arrive, Reply
from headway.core.protocols import Contention, CostTable, LogRow, Policy
from headway.core.request import Request
from headway.cost.contention import MaxMinFair
from headway.cost.lanes import LaneTable
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.predict.analytic import AnalyticEstimator
from headway.predict.lane_estimator import LaneEstimator
from headway.sim.driver import Simulation
from headway.sim.speed import Speed
from headway.sim.warm import WarmStarts

_BY_BLOCK = (Mode.SERIAL, Mode.SPLIT)


def toy_device(
    cores: int = 2, *, bandwidth_bytes_s: float = 1e9, kinds: Sequence[str] | None = None
) -> Device:
    """A device of equal small cores; `kinds` names the type of each core."""
    names = kinds or ["core"] * cores
    return Device(
        name="toy",
        cores=tuple(
            Core(index, f"core{index}", kind, 16, 16, Dataflow.WEIGHT_STATIONARY, 1e9, 1 << 20, 16, 0.1, 1.0)
            for index, kind in enumerate(names)
        ),
        dram_bandwidth_bytes_s=bandwidth_bytes_s,
        dram_energy_pj_per_byte=100.0,
        link=Link(1e9, 1.0),
        operand_bytes=1.0,
    )


def toy_lanes(lanes: int = 2, *, threads: int = 1) -> Device:
    """A device of equal lanes; `toy_lane_table` prices models on it, `OverlapLoss` says how they overlap."""
    return Device.of_lanes("toy-lanes", lanes, threads)


def toy_lane_table(
    device: Device,
    seconds: Mapping[int, Sequence[float]],
    *,
    dispatch_s: float = 0.0,
    switch_s: float = 0.0,
    pressures: Mapping[int, Sequence[Pressure]] | None = None,
    name: str = "toy",
    batches: Mapping[int, float] | None = None,
) -> LaneTable:
    """A cost table from the seconds of each block, by the number of threads it has, and from what they press
    on, by the number of lanes. `batches` says how many times as long each takes by so many requests
    together."""
    timings = {width: [Timing.of([each]) for each in blocks] for width, blocks in seconds.items()}
    blocks = tuple(
        BlockProfile(
            f"block{at}",
            f"{at}",
            0,
            (),
            {width: timings[width][at] for width in timings},
            batch_seconds={
                size: {width: Timing.of([factor * blocks[at]]) for width, blocks in seconds.items()}
                for size, factor in (batches or {}).items()
            },
        )
        for at in range(len(next(iter(seconds.values()))))
    )
    whole = {width: Timing.of([sum(blocks)]) for width, blocks in seconds.items()}
    shares, copies = dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0)
    model = ModelProfile(name, "toy", "toy", "toy", (), blocks, whole, shares, copies, 0.0)
    threads = sum(lane.threads for lane in device.cores)
    overheads = DeviceProfile("toy", "toy", threads, dispatch_s, switch_s, 0.0)
    return LaneTable(model, device, overheads, pressures)


class ToyTable:
    """A cost table given as (compute seconds, DRAM bytes) per block, the same on every kind unless scaled.

    `scale` multiplies the compute seconds of each kind. A fused range on one core computes as long and
    moves only the first block's and last block's halves of their bytes; a pipeline divides the compute
    time by its number of stages, a split range by its number of cores, at the slowest kind.
    `steps` safe points per block; `spill_bytes` when stopped inside a fused range or pipeline.
    """

    def __init__(
        self,
        device: Device,
        blocks: Sequence[tuple[float, float]],
        *,
        scale: Sequence[float] | None = None,
        steps: int = 1,
        kept: float = 0.0,
        spill_bytes: float = 0.0,
    ) -> None:
        self.kinds = device.kinds
        self.blocks = len(blocks)
        self._costs = blocks
        self._scale = scale or [1.0] * len(self.kinds)
        self._steps = steps
        self._spill_bytes = spill_bytes
        self.most_batch = 1
        bandwidth = device.dram_bandwidth_bytes_s
        every = range(len(self.kinds))
        self.serial = [
            [self._blocks(Mode.SERIAL, block, block + 1, (kind,)) for kind in every]
            for block in range(self.blocks)
        ]
        self.serial_s = [[option.seconds(bandwidth) for option in row] for row in self.serial]
        self.best_s = [min(row) for row in self.serial_s]
        self.remaining_s = [sum(self.best_s[block:]) for block in range(self.blocks + 1)]
        self.kept_bytes = [[kept if block else 0.0 for _ in every] for block in range(self.blocks)]
        self.unwritten_bytes = [[0.0 for _ in every] for _ in range(self.blocks)]

    def of_batch(self, size: int) -> ToyTable:
        """Itself for one request. Raises ValueError for more."""
        if size != 1:
            raise ValueError(f"a batch of {size}: a toy takes one request per run")
        return self

    def _blocks(self, mode: Mode, first: int, end: int, kinds: tuple[int, ...]) -> Option:
        """Block after block, on one core or spread over several."""
        compute_s = sum(self._compute_s(block, kinds) for block in range(first, end))
        dram_bytes = sum(self._costs[block][1] for block in range(first, end))
        return self._option(mode, first, end, kinds, (), None, compute_s, dram_bytes)

    def _compute_s(self, block: int, kinds: tuple[int, ...]) -> float:
        return self._costs[block][0] * max(self._scale[kind] for kind in kinds) / len(kinds)

    def _option(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...],
        band_rows: int | None,
        compute_s: float,
        dram_bytes: float,
    ) -> Option:
        serial_bytes = sum(self._costs[block][1] for block in range(first, end))
        spill_bytes = 0.0 if mode in _BY_BLOCK else self._spill_bytes
        return Option(
            mode, first, end, kinds, cuts, band_rows, self._steps, 0.0, compute_s, dram_bytes, 0.0, 0.0,
            dram_bytes, float(end - first), serial_bytes, spill_bytes,
        )  # fmt: skip

    def stacks(self, block: int) -> list[Option]:
        """Every longer range from there, on every kind."""
        return [
            self.option(Mode.FUSED, block, end, (kind,))
            for end in range(block + 2, self.blocks + 1)
            for kind in range(len(self.kinds))
        ]

    def pipelines(self, block: int) -> list[Option]:
        """Two-stage pipelines over two cores of the first kind."""
        return [
            self.option(Mode.PIPELINE, block, end, (0, 0), (block + 1,))
            for end in range(block + 2, self.blocks + 1)
        ]

    def option(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...] = (),
        band_rows: int | None = None,
    ) -> Option:
        """See CostTable.option."""
        if mode is Mode.SERIAL and len(kinds) != 1:
            raise ValueError(f"a serial run takes one core, found {len(kinds)}")
        if mode is Mode.SPLIT and len(kinds) < 2:
            raise ValueError(f"a split run takes two cores or more, found {len(kinds)}")
        if mode in _BY_BLOCK:
            return self._blocks(mode, first, end, kinds)
        compute_s = (
            sum(self._costs[block][0] for block in range(first, end)) * self._scale[kinds[0]] / len(kinds)
        )
        dram_bytes = (self._costs[first][1] + self._costs[end - 1][1]) / 2.0
        return self._option(mode, first, end, kinds, cuts, band_rows, compute_s, dram_bytes)

    def segments(self, option: Option) -> list[Segment]:
        """One segment per block of a serial or split run, one for anything else."""
        if option.mode not in _BY_BLOCK:
            return [
                Segment(
                    option.first, option.end, 0.0, option.compute_s, option.dram_bytes, option.steps,
                    energy_pj=option.energy_pj, macs=option.macs,
                )
            ]  # fmt: skip
        return [
            Segment(
                block, block + 1, 0.0, self._compute_s(block, option.kinds), self._costs[block][1],
                self._steps,
                energy_pj=self._costs[block][1], macs=1.0,
            )
            for block in range(option.first, option.end)
        ]  # fmt: skip


def toy_request(
    id: int,
    model: str,
    tables: Mapping[str, CostTable],
    *,
    arrival_s: float,
    deadline_s: float,
    tenant: str = "tenant",
    **fields: float,
) -> Request:
    """A request at block 0 of a model."""
    table = tables[model]
    return Request(id, tenant, id, model, arrival_s, deadline_s, table.blocks, table.remaining_s[0], **fields)  # type: ignore[arg-type]


class Listed:
    """A source that sends given requests."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._requests = sorted(requests, key=lambda request: (request.arrival_s, request.id))

    def first(self) -> Iterator[Arrive]:
        """The requests in order of arrival."""
        return iter([Arrive(request) for request in self._requests])

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """Nothing reacts."""
        return ()


class Rows(list[LogRow]):
    """A sink that is a list."""

    def add(self, row: LogRow) -> None:
        """Append a row."""
        self.append(row)

    def of(self, event: str) -> list[LogRow]:
        """The rows of one kind of event."""
        return [row for row in self if row.event == event]


def play(
    policy: Policy,
    device: Device,
    tables: Mapping[str, CostTable],
    requests: Iterable[Request],
    *,
    contention: Contention | None = None,
    noise: Mapping[int, Sequence[float]] | None = None,
    charge: DecisionCharge | None = None,
    lane_estimator: LaneEstimator | None = None,
    speed: Speed | None = None,
    warm: WarmStarts | None = None,
) -> Rows:
    """Simulate requests under a policy and return the log; `noise` has factors per block by request id,
    `charge` is what decisions take in virtual time, `lane_estimator` what is believed in place of
    `contention`; `speed` and `warm` are as for `Simulation`."""
    rule = contention or MaxMinFair(device.dram_bandwidth_bytes_s)
    rows = Rows()
    estimator = lane_estimator or AnalyticEstimator(device, tables, rule)
    believed = rule if lane_estimator is None else lane_estimator.contention
    engine = Engine(device, policy, estimator, believed, rows, charge=charge)
    factors = noise or {}
    simulation = Simulation(
        engine,
        Listed(requests),
        device,
        tables,
        rule,
        lambda r: factors.get(r.id, (1.0,) * r.blocks),
        speed=speed,
        warm=warm,
    )
    simulation.run()
    return rows
