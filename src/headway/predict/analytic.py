"""The analytic belief: cost tables plus fluid sharing of the memory bandwidth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from headway.core.block import Option
from headway.core.device import Device
from headway.core.expectation import left_of, resumption
from headway.core.messages import Dispatch
from headway.core.protocols import Contention, CostTable, Estimate
from headway.core.request import Request
from headway.core.run import Run
from headway.core.throttle import throttled


class AnalyticEstimator:
    """Estimates from the cost model alone, without any observation.

    `mean_s` lets every run keep the demand it has now; `upper_s` gives the candidate only an equal share
    of the DRAM bandwidth, the least that max-min fair sharing can leave it.
    """

    def __init__(self, device: Device, tables: Mapping[str, CostTable], contention: Contention) -> None:
        self._device = device
        self._tables = tables
        self._contention = contention

    def table(self, request: Request) -> CostTable:
        """The cost table of the request's model. Raises KeyError for a model that was not loaded."""
        return self._tables[request.model]

    def option(self, dispatch: Dispatch) -> Option:
        """The option that a dispatch asks for. Raises ValueError if it cannot be run so."""
        kind_of, table = self._device.kind_of, self.table(dispatch.requests[0])
        if dispatch.batch > 1:
            table = table.of_batch(dispatch.batch)
        return table.option(
            dispatch.mode,
            dispatch.blocks.start,
            dispatch.blocks.stop,
            tuple([kind_of[core.index] for core in dispatch.cores]),
            dispatch.cuts,
            dispatch.band_rows,
        )

    def estimate(
        self,
        dispatches: Sequence[Dispatch],
        beside: Sequence[Run | Dispatch],
        extra_bytes: Sequence[float],
        now: float,
    ) -> list[Estimate]:
        """Estimates of several dispatches, each beside the same others; see Estimate for the fields."""
        bandwidth = self._device.dram_bandwidth_bytes_s
        others = [self._ongoing(other, now) for other in beside]
        demands = [demand for demand, _ in others]
        before = self._contention.rates(demands) if demands else []
        estimates = []
        for dispatch, extra in zip(dispatches, extra_bytes, strict=True):
            option = self.option(dispatch)
            request = dispatch.requests[0]
            resumed, read_back_bytes = resumption(request, option, dispatch.cores)
            segments = self.table(request).segments(option) if resumed else ()
            left = left_of(option, segments, resumed, extra + read_back_bytes, bandwidth)
            cap = _cap_of(dispatch)
            asked, slowed = throttled(left.bandwidth_bytes_s, cap)
            rates = self._contention.rates([asked, *demands])
            busy_s = left.busy_s / (rates[0] * slowed)
            share = min(bandwidth / (len(others) + 1), cap)
            estimates.append(
                Estimate(
                    mean_s=left.fixed_s + busy_s,
                    upper_s=left.fixed_s + max(busy_s, left.dram_bytes / share),
                    source="analytic",
                    bandwidth_bytes_s=left.bandwidth_bytes_s,
                    dram_bytes=left.dram_bytes,
                    sram_bytes=option.sram_bytes,
                    energy_pj=option.energy_pj,
                    others_end_s=tuple(
                        left_s * old / new
                        for (_, left_s), old, new in zip(others, before, rates[1:], strict=True)
                    ),
                )
            )
        return estimates

    def _ongoing(self, other: Run | Dispatch, now: float) -> tuple[float, float]:
        """The bytes per second that a co-runner asks for, and the seconds it still takes."""
        if isinstance(other, Run):
            return other.asked_bytes_s, max(0.0, other.expected_end_s - now)
        option = self.option(other)
        seconds = option.seconds(self._device.dram_bandwidth_bytes_s)
        demand = option.dram_bytes / seconds if seconds > 0.0 else 0.0
        asked, slowed = throttled(demand, _cap_of(other))
        return asked, seconds / slowed


def _cap_of(dispatch: Dispatch) -> float:
    cap = dispatch.bandwidth_cap_bytes_s
    return math.inf if cap is None else cap
