"""Scenarios end to end, through the Python API."""

import pytest

import headway
from headway import wiring

CLOSED = {"process": "closed", "clients": 2, "think_time": "1 ms"}


def scenario(arrivals, **length):
    return headway.Scenario.from_mapping(
        {
            "name": "s",
            "hardware": "stream-hetero4",
            "warmup": "50 %",
            "tenants": [
                {"name": "a", "model": "kws_res8", "sla": {"isolated": 4.0}, "arrivals": arrivals},
                {"name": "b", "model": "kws_res8", "sla": {"isolated": 9.0}, "arrivals": arrivals},
            ],
        }
        | length
    )


@pytest.mark.parametrize(
    ("arrivals", "length"),
    [
        (CLOSED, {"requests": 100}),
        (CLOSED, {"duration": "50 ms"}),
        ({"process": "poisson", "rate": "500 /s"}, {"requests": 100}),
        ({"process": "poisson", "rate": "500 /s"}, {"duration": "100 ms"}),
    ],
)
def test_half_of_the_time_is_warm_up_whatever_ends_a_scenario(arrivals, length):
    result = headway.simulate(scenario(arrivals, **length), policy="fcfs")
    asked = len(result.log.where("arrive"))
    assert 0.35 * asked < result.summary.total.requests < 0.65 * asked


def test_the_number_of_requests_to_come_is_known_but_for_closed_loops():
    poisson = {"process": "poisson", "rate": "500 /s"}
    assert wiring.prepare(scenario(poisson, requests=100)).expected_requests == 100
    assert wiring.prepare(scenario(CLOSED, requests=100)).expected_requests == 100
    assert wiring.prepare(scenario(CLOSED, duration="1 s")).expected_requests is None
    timed = scenario(poisson, duration="1 s")
    expected = wiring.prepare(timed).expected_requests
    assert expected == len(headway.simulate(timed, policy="fcfs").log.where("arrive"))


def test_a_policy_that_fails_is_a_mistake_of_the_user_with_the_cause_behind_it():
    @headway.policy("test-wiring-fails")
    class Fails(headway.Policy):
        def decide(self, view):
            raise LookupError("lost")

    with pytest.raises(
        headway.HeadwayError, match=r"'test-wiring-fails' failed at .* LookupError: lost"
    ) as caught:
        headway.simulate(scenario(CLOSED, requests=10), policy="test-wiring-fails")
    assert isinstance(caught.value.__cause__.__cause__, LookupError)
