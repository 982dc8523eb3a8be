"""Headway schedules many tenants' model inference on shared hardware so that each latency SLA holds.

    import headway

    scenario = headway.Scenario.load("examples/three_tenants.yaml")
    result = headway.simulate(scenario, policy="lucas")
    print(result.summary.total.sla_satisfaction)

Names are imported when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# ONNX Runtime's wheels for Linux tell their maker about sessions from 1.32 on; nothing here goes out unasked.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from headway.api import (
        Comparison,
        LiveResult,
        Result,
        TwinResult,
        build_table,
        compare,
        run,
        simulate,
        twin,
    )
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
    "LiveResult",
    "Mode",
    "Policy",
    "Preempt",
    "Result",
    "Scenario",
    "TwinResult",
    "Wake",
    "build_table",
    "compare",
    "load_hardware",
    "load_model",
    "policy",
    "run",
    "simulate",
    "twin",
]

_HOMES = {
    "Adjust": "headway.core.messages",
    "Capability": "headway.core.protocols",
    "Comparison": "headway.api",
    "Dispatch": "headway.core.messages",
    "Drop": "headway.core.messages",
    "HeadwayError": "headway.core.errors",
    "How": "headway.core.run",
    "LiveResult": "headway.api",
    "Mode": "headway.core.block",
    "Policy": "headway.policies",
    "Preempt": "headway.core.messages",
    "Result": "headway.api",
    "Scenario": "headway.config",
    "TwinResult": "headway.api",
    "Wake": "headway.core.messages",
    "build_table": "headway.api",
    "compare": "headway.api",
    "load_hardware": "headway.config",
    "load_model": "headway.models",
    "policy": "headway.policies",
    "run": "headway.api",
    "simulate": "headway.api",
    "twin": "headway.api",
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
