"""How many requests per second each tenant of a scenario asks for."""

from __future__ import annotations

from collections.abc import Sequence

from headway.config.arrivals import After, Closed, MocaStream, Streams
from headway.config.traces import Trace
from headway.workload.sources import TenantLoad, stream_members
from headway.workload.streams import mean_rates
from headway.workload.traces import trace_rate


def request_rates(loads: Sequence[TenantLoad], streams: Streams) -> dict[str, float]:
    """Requests per second of each tenant in the long run, those of cascades included.

    Raises HeadwayError for streams and traces that have no rate, and ValueError for closed loops, whose rates
    depend on the replies.
    """
    members = stream_members(loads)
    drawn = dict(zip((m.position for m in members), mean_rates(streams, members), strict=True))
    by_name = {load.tenant: (position, load) for position, load in enumerate(loads)}

    def rate(position: int, load: TenantLoad) -> float:
        process = load.arrivals
        if isinstance(process, After):
            return rate(*by_name[process.parent]) * process.probability
        if isinstance(process, MocaStream):
            return drawn[position]
        if isinstance(process, Trace):
            return trace_rate(process)
        if isinstance(process, Closed):
            raise ValueError(f"tenant {load.tenant!r} is a closed loop, which has no rate of its own")
        return process.mean_rate

    return {load.tenant: rate(position, load) for position, load in enumerate(loads)}
