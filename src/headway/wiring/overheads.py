"""What a request takes longer than its blocks: measured through the live driver, with nothing to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import quantiles
from time import perf_counter
from typing import Final, NamedTuple

from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.messages import Arrive, Reply
from headway.core.request import Request
from headway.cost.contention import OverlapLoss
from headway.cost.lanes import LaneTable
from headway.live.clock import WallClock
from headway.live.driver import LiveDriver
from headway.live.executors.null import NullExecutor
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.record.columns import requests_of
from headway.record.log import MemoryLog

POLICY: Final = "edf:planned"
GAPS_S: Final = (0.0, 1e-3, 5e-3, 20e-3)
"""For how long a lane is idle before its next request comes; without a gap that one waits already."""

_REQUESTS: Final = 30  # for each gap
_OTHER_BYTES: Final = 8 << 20  # more than a core's own caches hold
_NOTHING_S: Final = 1e-9


class Dispatch(NamedTuple):
    """Seconds that a request takes beside its blocks.

    `cold_s` is on a lane that was idle for `cold_after_s` or more, `warm_s` on one that was busy until just
    before; `by_gap_s` are all that were measured, by how long the lane was idle.
    """

    cold_s: float
    warm_s: float
    cold_after_s: float
    by_gap_s: dict[float, float]

    @classmethod
    def of(cls, by_gap_s: dict[float, float]) -> Dispatch:
        """From what was measured for each gap: cold is the longest gap, warm the shortest one. A lane counts
        as cold from between those two gaps on where the half of the difference is passed."""
        gaps_s = sorted(by_gap_s)
        cold_s = by_gap_s[gaps_s[-1]]
        warm_s = min(cold_s, by_gap_s[gaps_s[0]])
        middle_s = (cold_s + warm_s) / 2.0
        after_s = next((sum(pair) / 2.0 for pair in pairwise(gaps_s) if by_gap_s[pair[1]] >= middle_s), 0.0)
        return cls(cold_s, warm_s, after_s, by_gap_s)


def measure_dispatch(lanes: Sequence[Sequence[int]], *, pin: bool = True) -> Dispatch:
    """What requests take beside their blocks through the driver, if their only block takes no time.

    The timer, waking the driver, deciding, handing over, waking the lane, and hearing of the end are in it
    after a gap; without one the lane's thread takes the next request, and nobody is woken. Each finds caches
    full of other things, as among models that run. The lower quartile, since what else the machine does only
    ever adds. It takes about a second.

    Args:
        lanes: for each core, by index, the numbers of its processors; the first is measured.
        pin: as for the executors.
    """
    return Dispatch.of({gap_s: _request_s(gap_s, lanes[:1], pin) for gap_s in GAPS_S})


def _request_s(gap_s: float, lanes: Sequence[Sequence[int]], pin: bool) -> float:
    threads = len(lanes[0])
    device = Device.of_lanes("lane", 1, threads)
    nothing = ModelProfile(
        model="",
        content_hash="",
        machine="",
        runtime="",
        positions=(),
        blocks=(BlockProfile("", "", 0, (), {threads: Timing.of([_NOTHING_S])}),),
        whole_seconds={threads: Timing.of([_NOTHING_S])},
        boundary_share={},
        private_bytes={},
        intake_s=0.0,
    )
    table = LaneTable(nothing, device, DeviceProfile("", "", 0, 0.0, 0.0, 0.0))
    rule, log = OverlapLoss(0.0), MemoryLog({})
    engine = Engine(device, make(POLICY), AnalyticEstimator(device, {"": table}, rule), rule, log)
    executor = NullExecutor({"": (0.0,)}, lanes, pin=pin)
    clock = WallClock()
    one, other = bytes(_OTHER_BYTES), bytearray(_OTHER_BYTES)
    spent_s: list[float] = []  # after each request, on caches

    def use_caches(_: Reply) -> None:
        began_s = perf_counter()
        other[:] = one
        spent_s.append(perf_counter() - began_s)

    source = _Waiting() if gap_s == 0.0 else _Spaced(gap_s, clock)
    try:
        report = LiveDriver(engine, source, executor, clock, on_reply=use_caches).run()
    finally:
        executor.close()
    if report.interrupted:
        raise KeyboardInterrupt  # which the driver took for a wish to end early
    requests = requests_of(log.table())
    if gap_s == 0.0:
        ends_s = sorted(requests.end_s)
        took_s = [
            end_s - before_s - spent
            for spent, (before_s, end_s) in zip(spent_s[:-1], pairwise(ends_s), strict=True)
        ]
    else:
        took_s = list(requests.end_s - requests.arrival_s)
    return max(0.0, float(quantiles(took_s, n=4)[0]))


class _Waiting:
    """Requests of nothing that all wait from the beginning."""

    def first(self) -> Iterable[Arrive]:
        """All of them."""
        return [Arrive(_request(id, 0.0)) for id in range(_REQUESTS)]

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """None."""
        return ()


class _Spaced:
    """Requests of nothing, each so many seconds after the one before was answered."""

    def __init__(self, gap_s: float, clock: WallClock) -> None:
        self._gap_s, self._clock = gap_s, clock

    def first(self) -> Iterable[Arrive]:
        """The first one."""
        return [Arrive(_request(0, self._gap_s))]

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """The next one."""
        id = reply.request.id + 1
        return [Arrive(_request(id, self._clock.now() + self._gap_s))] if id < _REQUESTS else []


def _request(id: int, at_s: float) -> Request:
    return Request(id, "", id, "", at_s, at_s + 10.0, 1, _NOTHING_S)
