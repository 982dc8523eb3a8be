"""An upper bound on SLA satisfaction that no policy can pass, one that knows the future included.

Take any schedule of a run, and prices that are not negative: for a second of a core of each kind, and for
what the memory moves in a second at most. Let the price of the whole machine for a second be 1. Then

1. the machine sells at most 1 per second, since a core does one run at a time and the memory never gives more
   than its bandwidth;
2. a request that is done has bought all its blocks between its arrival and its end, and paid at least what
   the cheapest way through its blocks costs (`headway.bounds.demand`), because no run is faster than alone
   on the machine with the factors that truth draws, and nothing else makes it cheaper: co-runners,
   preemption, decision times and caps only add;
3. so the requests that are done on time fit, with that much work each, into their windows on one machine
   that does 1 per second and may be divided and preempted at will (`headway.bounds.admission`);
4. a request whose fastest way through its blocks, on an empty machine, ends after its deadline is late.

This holds for all prices; those that bound best are looked for, the bound is the least of those tried. The
factors must be those of the run. Noise-free factors would not do: where truth is lucky, a policy may finish
more. Requests that are not counted (warm-up) are left out, as if they took nothing.

The ways of running are those that the cost table offers and, if asked for, the same in the fixed number of
bands of a policy that has `fixed_bands` (`headway.bounds.ways`). A policy that asks for stage
cuts or band heights of its own may find one that is cheaper than all of those, most of all on cores with so
little SRAM that a stack fits only in more bands than a table has; the bound does not cover it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from headway.bounds.admission import most_on_time
from headway.bounds.demand import least_latency_s, least_priced_s
from headway.bounds.ways import Floats, Ways, ways_of
from headway.core.device import Device
from headway.core.protocols import CostTable
from headway.core.request import Request

_SHARES: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_PRICES_TRIED: Final = 3
_ROUNDING: Final = 1.0 - 1e-9  # sums of floats here and in the simulator may differ in their last digits
_MOST_KINDS_IN_GRID: Final = 3


@dataclass(frozen=True, slots=True)
class Bound:
    """What a clairvoyant policy could reach at most.

    `on_time` of `requests` can be done by their deadlines; `hopeless` are late even on an empty machine.
    `bandwidth_share` is the share of the machine's price that is the memory's at the prices that bound best:
    near 1 where bandwidth is what is short, near 0 where cores are.
    """

    requests: int
    on_time: int
    hopeless: int
    bandwidth_share: float

    @property
    def sla_satisfaction(self) -> float | None:
        """The share of the requests; None without any."""
        return self.on_time / self.requests if self.requests else None


class Clairvoyant:
    """Bounds for one device and its models, for policies with or without `fixed_bands`."""

    def __init__(self, device: Device, tables: Mapping[str, CostTable], *, fixed_bands: bool = False) -> None:
        self._device = device
        self._fixed_bands = fixed_bands
        self._tables = tables
        self._cost_at: dict[str, Floats] = {}
        self._prices = _prices(device)

    def bound(self, requests: Sequence[Request], factors: Callable[[Request], Sequence[float]]) -> Bound:
        """The bound for these requests, with the factors on the solo times of their blocks.

        Only their tenants, indices, models, arrivals and deadlines are read.
        """
        if not requests:
            return Bound(0, 0, 0, 0.0)
        arrival_s = np.array([request.arrival_s for request in requests])
        deadline_s = np.array([request.deadline_s for request in requests])
        members: dict[str, list[int]] = {}
        for position, request in enumerate(requests):
            members.setdefault(request.model, []).append(position)
        drawn = {
            model: np.array([factors(requests[position]) for position in positions], dtype=np.float64)
            for model, positions in members.items()
        }
        latency_s = np.empty(len(requests))
        for model, positions in members.items():
            latency_s[positions] = least_latency_s(self._ways_of(model), drawn[model])
        hopeful = arrival_s + latency_s * _ROUNDING <= deadline_s
        if not hopeful.any():
            return Bound(len(requests), 0, len(requests), 0.0)
        counts = {model: int(hopeful[positions].sum()) for model, positions in members.items()}
        span_s = float(deadline_s[hopeful].max() - arrival_s[hopeful].min())
        best, share = float(hopeful.sum()), 0.0
        for price in self._promising(counts, span_s):
            work_s = np.empty(len(requests))
            for model, positions in members.items():
                work_s[positions] = least_priced_s(
                    self._ways_of(model), drawn[model], price[None, 1:], price[:1]
                )
            count = most_on_time(arrival_s[hopeful], deadline_s[hopeful], work_s[hopeful] * _ROUNDING)
            if count < best:
                best, share = count, float(price[0])
        return Bound(len(requests), int(best + 1e-6), int((~hopeful).sum()), share)

    def _ways_of(self, model: str) -> Ways:
        return ways_of(self._tables[model], self._device, fixed_bands=self._fixed_bands)

    def _promising(self, counts: Mapping[str, int], span_s: float) -> Floats:
        """The prices at which the fewest requests fit into the whole span, without regard to windows."""
        prices = self._prices
        for model in counts:
            if model not in self._cost_at:
                ways = self._ways_of(model)
                alone = np.ones((len(prices), ways.blocks))
                self._cost_at[model] = least_priced_s(ways, alone, prices[:, 1:], prices[:, 0])
        fit = np.zeros(len(prices))
        for at in range(len(prices)):
            left = span_s
            for cost, count in sorted((float(self._cost_at[model][at]), n) for model, n in counts.items()):
                taken = min(float(count), left / cost) if cost > 0.0 else float(count)
                fit[at] += taken
                left -= taken * cost
        order = np.lexsort((-self._total_cost(counts), fit))
        return prices[order[:_PRICES_TRIED]]

    def _total_cost(self, counts: Mapping[str, int]) -> Floats:
        total: Floats = sum(
            (count * self._cost_at[model] for model, count in counts.items()), np.zeros(len(self._prices))
        )
        return total


def _prices(device: Device) -> Floats:
    """[trial, 1 + kind]: prices of the memory and of a core of each kind, the whole machine at 1.

    With up to three kinds a grid over what each kind takes of the cores' part; with more, all cores cost
    the same.
    """
    counts = np.array(device.kind_counts, dtype=np.float64)
    kinds = len(counts)
    if kinds == 1 or kinds > _MOST_KINDS_IN_GRID:
        splits = [counts / counts.sum()]
    else:
        steps = 8 if kinds == 2 else 4
        splits = [
            np.array(parts) / steps
            for parts in product(range(steps + 1), repeat=kinds)
            if sum(parts) == steps
        ]
    memory = [0.0] if np.isinf(device.dram_bandwidth_bytes_s) else _SHARES
    return np.array([[share, *((1.0 - share) * split / counts)] for share in memory for split in splits])
