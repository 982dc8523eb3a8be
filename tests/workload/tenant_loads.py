"""Loads of tenants for tests."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from headway.config.arrivals import Arrivals
from headway.workload.sources import TenantLoad


def load(
    tenant: str = "a",
    *,
    isolated_s: float = 0.004,
    expires_after_s: float | None = None,
    priority: Any = 0,
    **arrivals: Any,
) -> TenantLoad:
    """A load of five blocks, due 20 ms after arrival; by default Poisson arrivals at 100 /s."""
    arrivals = arrivals or {"process": "poisson", "rate": "100 /s"}
    return TenantLoad(
        tenant=tenant,
        model="net",
        blocks=5,
        isolated_s=isolated_s,
        relative_deadline_s=0.02,
        arrivals=TypeAdapter(Arrivals).validate_python(arrivals),
        expires_after_s=expires_after_s,
        priority=priority,
    )
