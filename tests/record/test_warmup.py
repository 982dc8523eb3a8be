"""A warm-up that is a share ends at the same time under every policy."""

from __future__ import annotations

import pytest

from headway import wiring
from headway.config import Scenario
from headway.record.columns import warmup_end_s

SCENARIO = {
    "name": "frames",
    "seed": 1,
    "hardware": "moca8",
    "policy": "fcfs",
    "requests": 20,
    "warmup": "50 %",
    "tenants": [
        {
            "name": "eyes",
            "model": "squeezenet",
            "sla": {"deadline": "5 ms"},
            "arrivals": {"process": "periodic", "rate": "1000 /s"},
        },
        {
            "name": "gaze",
            "model": "kws_res8",
            "sla": {"deadline": "9 ms"},
            "arrivals": {"process": "after", "parent": "eyes", "probability": 0.5},
        },
    ],
}


@pytest.mark.parametrize("decision_time", ["0 us", "50 ms"])
def test_it_is_a_share_of_the_time_until_the_last_root_arrives(decision_time: str) -> None:
    scenario = Scenario.from_mapping(SCENARIO | {"decision_time": {"fixed": decision_time}})
    log = wiring.simulate(wiring.prepare(scenario), "fcfs")
    arrivals = log.floats("time_s")[log.where("arrive")]
    assert arrivals.max() > 0.0195  # requests of the cascade come after the last frame
    assert warmup_end_s(log) == pytest.approx(0.5 * 0.019)
