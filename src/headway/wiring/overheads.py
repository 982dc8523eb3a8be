"""What a request takes longer than its blocks: measured through the live driver, with nothing to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import quantiles
from typing import Final

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
_REQUESTS: Final = 60
_SPACING_S: Final = 12e-3
_OTHER_BYTES: Final = 8 << 20  # more than a core's own caches hold
_NOTHING_S: Final = 1e-9


def measure_request_s(device: Device, lanes: Sequence[Sequence[int]], *, pin: bool = True) -> float:
    """Seconds from a request's being due to its reply if its only block takes no time.

    The timer, waking the driver, deciding, handing over, waking the lane, and hearing of the end are in it.
    Each request finds threads asleep and caches full of other things, as it does among models that run. The
    lower quartile, since what else the machine does only ever adds.

    Args:
        device: the device with these lanes.
        lanes: for each core, by index, the numbers of its processors.
        pin: as for the executors.
    """
    nothing = ModelProfile(
        model="",
        content_hash="",
        machine="",
        runtime="",
        positions=(),
        blocks=(BlockProfile("", "", 0, (), {device.cores[0].threads: Timing.of([_NOTHING_S])}),),
        whole_seconds={device.cores[0].threads: Timing.of([_NOTHING_S])},
        boundary_share={},
        private_bytes={},
        intake_s=0.0,
    )
    table = LaneTable(nothing, device, DeviceProfile("", "", 0, 0.0, 0.0, 0.0))
    rule, log = OverlapLoss(0.0), MemoryLog({})
    engine = Engine(device, make(POLICY), AnalyticEstimator(device, {"": table}, rule), rule, log)
    executor = NullExecutor({"": (0.0,)}, lanes, pin=pin)
    other = bytearray(_OTHER_BYTES)

    def use_caches(_: Reply) -> None:
        other[:] = other[::-1]

    try:
        report = LiveDriver(engine, _Evenly(), executor, WallClock(), on_reply=use_caches).run()
    finally:
        executor.close()
    if report.interrupted:
        raise KeyboardInterrupt  # which the driver took for a wish to end early
    requests = requests_of(log.table())
    return float(quantiles(requests.end_s - requests.arrival_s, n=4)[0])


class _Evenly:
    """Requests of nothing, one after the other."""

    def first(self) -> Iterable[Arrive]:
        """At even distances."""
        for id in range(_REQUESTS):
            at_s = (id + 1) * _SPACING_S
            yield Arrive(Request(id, "", id, "", at_s, at_s + 1.0, 1, _NOTHING_S))

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """None."""
        return ()
