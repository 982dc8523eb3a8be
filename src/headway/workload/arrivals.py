"""Times at which the requests of one tenant arrive, whatever happens to them.

All draws come from named streams: a generator depends on the seed and its names alone, so another tenant or
another use of randomness shifts nothing, and every policy meets the same arrivals.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headway.config.arrivals import Closed, Mmpp, OpenArrivals, Periodic, Poisson, RandomArrivals, Uniform
from headway.config.traces import Trace
from headway.workload.draws import CHUNK, stream
from headway.workload.traces import trace_times

Times = NDArray[np.float64]


def arrival_times(process: OpenArrivals, seed: int, tenant: str) -> Iterator[float]:
    """Arrival times in seconds, in order, for a process that does not react to replies; endless but for
    traces."""
    if isinstance(process, Trace):
        yield from trace_times(process, seed, tenant).tolist()
        return
    for chunk in _chunks(process, seed, tenant):
        yield from chunk.tolist()


def _chunks(process: RandomArrivals, seed: int, tenant: str) -> Iterator[Times]:
    draws = stream(seed, "arrivals", tenant)
    match process:
        case Poisson():
            return _summed(draws, process.rate, even=False)
        case Uniform():
            return _summed(draws, process.rate, even=True)
        case Mmpp():
            return _bursts(process, draws, stream(seed, "phases", tenant))
        case Periodic():
            return _frames(process, draws)


def _summed(draws: np.random.Generator, rate: float, *, even: bool) -> Iterator[Times]:
    """Sums of gaps with mean 1/rate, exponential or evenly distributed."""
    last = 0.0
    while True:
        gaps = draws.random(CHUNK) * 2 if even else draws.standard_exponential(CHUNK)
        gaps /= rate
        gaps[0] += last
        times = np.cumsum(gaps)
        last = float(times[-1])
        yield times


def _frames(process: Periodic, draws: np.random.Generator) -> Iterator[Times]:
    """One time per frame; jitter of at most half a period keeps their order."""
    first = 0
    while True:
        frames = np.arange(first, first + CHUNK)
        times = process.phase + frames * process.period_s
        times += draws.uniform(-1.0, 1.0, CHUNK) * process.jitter
        # Rounding could put two frames that jitter moved to the same moment out of order by one ulp.
        yield np.maximum.accumulate(np.maximum(times, 0.0))
        first += CHUNK


def _bursts(process: Mmpp, draws: np.random.Generator, phases: np.random.Generator) -> Iterator[Times]:
    """A Poisson process of rate 1 in operational time, mapped through the inverse of the phases' integral.

    (Cinlar, Introduction to Stochastic Processes, 1975, section 4.7.) The first phase is drawn by the share
    of time that each takes, which makes the process stationary.
    """
    on = bool(phases.random() < process.on_share)
    mean = np.array([process.mean_on, process.mean_off])
    rate = np.array([process.off_rate * process.burst_ratio, process.off_rate])
    order = np.tile([0, 1] if on else [1, 0], CHUNK // 2)
    ends, work = np.zeros(1), np.zeros(1)  # phase boundaries so far, and the expected arrivals until each
    for targets in _summed(draws, 1.0, even=False):
        while work[-1] < targets[-1]:
            lengths = phases.standard_exponential(CHUNK) * mean[order]
            ends = np.append(ends, ends[-1] + np.cumsum(lengths))
            work = np.append(work, work[-1] + np.cumsum(lengths * rate[order]))
        yield np.interp(targets, work, ends)
        past = max(int(np.searchsorted(work, targets[-1])) - 1, 0)
        ends, work = ends[past:], work[past:]


def think_time_s(process: Closed, seed: int, tenant: str, client: int, rounds: int) -> float:
    """Seconds that a client thinks before its request number `rounds`, counted from 0.

    The clients' first requests are spread over one think time when it is fixed, so that they do not all come
    at once.
    """
    if process.think == "fixed":
        return process.think_time * (client / process.clients if rounds == 0 else 1.0)
    return process.think_time * float(stream(seed, "think", tenant, client, rounds).standard_exponential())
