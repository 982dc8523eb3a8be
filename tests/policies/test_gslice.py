"""Reactive shares, worked by hand."""

import pytest
from lane_scene import ends, scene, starts

from headway.policies import make

MODELS = {"m": {1: [1.0], 2: [0.6]}, "long": {1: [4.0], 2: [2.4]}}


def tenant(name):
    return {"tenant": name}


def test_a_tenant_alone_has_everything():
    assert starts(scene("gslice", [("m", 0, 99)], MODELS)) == [(0, 0.0, "0+1", 0, 1)]


def test_with_even_shares_each_of_two_tenants_keeps_to_one_lane():
    # The second request of "a" waits for the first although a lane is idle from 1 ms on: half is half.
    requests = [("long", 0, 99, tenant("a")), ("m", 0, 99, tenant("b")), ("m", 0, 99, tenant("a"))]
    log = scene("gslice", requests, MODELS)
    assert starts(log) == [(0, 0.0, "0", 0, 1), (1, 0.0, "1", 0, 1), (2, 4.0, "0", 0, 1)]


def test_of_three_tenants_on_two_lanes_the_least_served_goes_first():
    # "a" and "b" begin; at 1 "c" has had nothing, then at 2 "b" is behind "a", which has had 4 ms.
    requests = [
        ("long", 0, 99, tenant("a")),
        ("m", 0, 99, tenant("b")),
        ("m", 0, 99, tenant("c")),
        ("long", 0.5, 99, tenant("a")),
        ("m", 0.6, 99, tenant("b")),
    ]
    log = scene("gslice", requests, MODELS)
    assert [run[0] for run in starts(log)] == [0, 1, 2, 4, 3]
    assert ends(log)[4] == 3.0


def test_shares_follow_latency_over_slo():
    # Alone, ten requests of "a" one after the other, each at half its SLO (0.6 of 1.2 ms): one correction,
    # but a share of everything stays everything.
    policy = make("gslice")
    scene(policy, [("m", at, 1.2, tenant("a")) for at in range(10)], MODELS)
    assert policy.shares == {"a": 1.0}
    # Two tenants, narrow, 1 ms each: "a" at twice its SLO, "b" at a tenth. Even shares before; then, after
    # the tenth request of each, times 1.25 for "a", through 1.25 for "b", each time scaled to a sum of one.
    policy = make("gslice")
    requests = [(("m", at, 0.5, tenant("a")), ("m", at, 10, tenant("b"))) for at in range(0, 20, 2)]
    scene(policy, [each for pair in requests for each in pair], MODELS)
    first = 1.25 / 2.25
    second = (1 - first) / 1.25
    assert policy.shares == pytest.approx({"a": first / (first + second), "b": second / (first + second)})


def test_a_tenant_that_is_late_gets_more_lanes_and_one_at_ease_fewer():
    policy = make("gslice")
    requests = [(("m", at, 0.5, tenant("a")), ("m", at, 10, tenant("b"))) for at in range(0, 100, 2)]
    log = scene(policy, [each for pair in requests for each in pair], MODELS)
    assert policy.shares["a"] > 0.75
    assert starts(log)[0][2] == "0"
    assert {row.cores for row in log.of("start") if row.request >= 90 and row.tenant == "a"} == {"0+1"}
