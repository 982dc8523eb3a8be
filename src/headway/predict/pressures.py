"""What blocks on lanes of a processor press on, from their work and their measured times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headway.core.block import Pressure
from headway.predict.features import NO_SLOWDOWN, PROBES

if TYPE_CHECKING:
    from headway.models.block_work import BlockWork
    from headway.predict.features import DeviceLimits
    from headway.predict.latency import LatencyModel

_SHORTEST_S: Final = 1e-9


def processor_limits(latency: LatencyModel, threads: int) -> DeviceLimits:
    """What that many threads of a processor can do together.

    As measured with so many; else as many times the arithmetic of one, and its bandwidth, which they share.
    """
    if threads in latency.widths:
        return latency.limits(threads)
    one = latency.limits(1)
    return replace(one, flops_s=threads * one.flops_s, places=threads)


def lane_pressures(
    model: str,
    lanes: int,
    all_lanes: int,
    works: Sequence[BlockWork],
    seconds: Sequence[float],
    limits: DeviceLimits,
    slowdowns: Sequence[Mapping[str, float]] | None = None,
) -> list[Pressure]:
    """Pressures of a model's blocks over some of a processor's lanes.

    `limits` are those of all lanes together. Lanes have processors of their own, so that a run occupies the
    lanes it is on and no place of others; what they share is above all memory and the last cache. Shares are
    capped at 1: a block that seems to do more than the device can only shows that the limits are too low.
    """
    found = []
    for at, (work, alone_s) in enumerate(zip(works, seconds, strict=True)):
        block_s = max(alone_s, _SHORTEST_S)
        probed = slowdowns[at] if slowdowns else {}
        compute, memory, cache = (probed.get(probe, NO_SLOWDOWN) for probe in PROBES)
        found.append(
            Pressure(
                model,
                at,
                lanes,
                compute=min(1.0, work.flops / (block_s * limits.flops_s)),
                memory=min(1.0, work.moved_bytes / (block_s * limits.bandwidth_bytes_s)),
                occupancy=lanes / all_lanes,
                gap=min(1.0, work.kernels * limits.launch_s / block_s),
                cache=work.footprint_bytes / limits.cache_bytes,
                slowdowns=(compute, memory, cache),
            )
        )
    return found
