"""Scenarios end to end, through the Python API."""

import pytest

import headway
from headway import wiring
from headway.policies import registry

CLOSED = {"process": "closed", "clients": 2, "think_time": "1 ms"}


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_POLICIES", dict(registry._POLICIES))


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


def test_laxity_does_not_drop_what_one_uninterrupted_run_still_completes():
    # Alone in one run a model is faster than the sum of its layers by themselves, to which deadlines relate.
    cfg = scenario({"process": "poisson", "rate": "5 /s"}, requests=40)
    tight = cfg.with_overrides(
        {"tenants.a.sla.isolated": 0.8, "tenants.b.sla.isolated": 0.8, "noise.solo_std": 0}
    )
    results = headway.compare(tight, ["fcfs", "laxity"])
    assert results["fcfs"].summary.total.sla_satisfaction == 1.0
    assert results["laxity"].summary.total.sla_satisfaction == 1.0


@pytest.mark.parametrize("policies", ["fcfs", [], ()])
def test_policies_to_compare_are_a_list_with_something_in_it(policies):
    with pytest.raises(headway.HeadwayError, match="accepted: a list of names"):
        headway.compare(scenario(CLOSED, requests=10), policies)
