"""Headway schedules many tenants' model inference on shared hardware so that each latency SLA holds.

    import headway

    scenario = headway.Scenario.load("examples/three_tenants.yaml")
    result = headway.simulate(scenario, policy="lucas")
    print(result.summary.total.sla_satisfaction)

Names are imported when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import Comparison, Result, build_table, compare, simulate
    from headway.config import Scenario, load_hardware
    from headway.core.block import Mode
    from headway.core.errors import HeadwayError
    from headway.core.messages import Adjust, Dispatch, Drop, Preempt, Wake
    from headway.core.protocols import Capability
    from headway.core.run import How
    from headway.models import load_model
    from headway.policies import Policy, policy

__all__ = [
    "Adjust",
    "Capability",
    "Comparison",
    "Dispatch",
    "Drop",
    "HeadwayError",
    "How",
    "Mode",
    "Policy",
    "Preempt",
    "Result",
    "Scenario",
    "Wake",
    "build_table",
    "compare",
    "load_hardware",
    "load_model",
    "policy",
    "simulate",
]

_HOMES = {
    "Adjust": "headway.core.messages",
    "Capability": "headway.core.protocols",
    "Comparison": "headway.api",
    "Dispatch": "headway.core.messages",
    "Drop": "headway.core.messages",
    "HeadwayError": "headway.core.errors",
    "How": "headway.core.run",
    "Mode": "headway.core.block",
    "Policy": "headway.policies",
    "Preempt": "headway.core.messages",
    "Result": "headway.api",
    "Scenario": "headway.config",
    "Wake": "headway.core.messages",
    "build_table": "headway.api",
    "compare": "headway.api",
    "load_hardware": "headway.config",
    "load_model": "headway.models",
    "policy": "headway.policies",
    "simulate": "headway.api",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
