"""What the engine is asked: a client's inference with its deadline, and a model's first runs."""

from __future__ import annotations

from typing import Final

from headway.config.serving_parts import ServedTenant
from headway.core.request import Request
from headway.serve.loaded import Loaded

NO_SLA_S: Final = 3600.0
"""The deadline of a request that nobody gave one."""

LEAST_PRIORITY: Final = -1_000_000

WARM_UP: Final = "headway-warm-up"
"""The tenant of what a model runs before it is ready: best effort, with an hour's time."""


def asked_request(
    id: int,
    tenant: ServedTenant,
    loaded: Loaded,
    arrival_s: float,
    timeout_s: float | None,
    priority: int | None,
) -> Request:
    """A tenant's request; times are on the engine's clock.

    Its deadline is its arrival plus the tightest of the tenant's SLA and the time that it brings. It expires
    there if that binds: best effort only at the time that it brings. `priority` is the client's, -1 for the
    most important; it counts down from the tenant's own, so that nobody raises himself above others.
    """
    sla = tenant.sla_of(loaded.name)
    bounds_s = [] if sla is None else [sla.relative_deadline_s(loaded.isolated_s)]
    if timeout_s is not None:
        bounds_s.append(timeout_s)
    relative_s = min(bounds_s, default=NO_SLA_S)
    expires_s = timeout_s
    if isinstance(tenant.expires, float):
        expires_s = min(tenant.expires, timeout_s or tenant.expires)
    elif bounds_s and (tenant.strict or sla is None):
        expires_s = relative_s
    return Request(
        id,
        tenant.name,
        id,
        loaded.key,
        arrival_s,
        arrival_s + relative_s,
        loaded.blocks,
        loaded.isolated_s,
        tenant.priority if priority is None else max(LEAST_PRIORITY, tenant.priority + min(0, priority + 1)),
        tenant.weight,
        tenant.strict and bool(bounds_s),
        None if expires_s is None else arrival_s + expires_s,
        loaded.most_batch,
        0.0 if loaded.batching is None else loaded.batching.delay,
    )


def warm_up_request(id: int, loaded: Loaded, now: float) -> Request:
    """A run behind all other work."""
    return Request(
        id,
        WARM_UP,
        id,
        loaded.key,
        now,
        now + NO_SLA_S,
        loaded.blocks,
        loaded.isolated_s,
        strict=False,
    )
