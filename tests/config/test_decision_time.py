"""`decision_time` of a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from headway.config import Scenario
from headway.core.decision_time import DecisionCharge
from headway.core.errors import HeadwayError


def scenario(**changes: Any) -> Scenario:
    tenant = {
        "name": "only",
        "model": "resnet18",
        "sla": {"isolated": 4},
        "arrivals": {"process": "poisson", "rate": "50 /s"},
    }
    return Scenario.from_mapping(
        {"name": "demo", "hardware": "moca8", "requests": 100, "tenants": [tenant]} | changes
    )


def test_decisions_take_no_time_by_default() -> None:
    assert scenario().decision_time.charge() is None


def test_a_charge_as_written_and_read_back() -> None:
    given = scenario(decision_time={"fixed": "2 us", "per_ready": "50 ns", "per_idle_core": "0 us"})
    assert given.decision_time.charge() == DecisionCharge(2e-6, 50e-9, 0.0)
    assert Scenario.from_mapping(given.to_mapping()) == given
    changed = scenario().with_overrides({"decision_time.fixed": "3 us"})
    assert changed.decision_time.charge() == DecisionCharge(3e-6)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"fixed": 1}, "decision_time.fixed: found 1: a number without a unit; accepted: a time"),
        ({"fixed": "-1 us"}, "decision_time.fixed: found '-1 us': must be at least 0 s"),
        ({"per_core": "1 us"}, "decision_time.per_core: "),
    ],
)
def test_what_is_no_decision_time(found: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadwayError) as error:
        scenario(decision_time=found)
    assert message in str(error.value)
