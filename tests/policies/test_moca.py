"""MoCA's groups, order and partition of bandwidth, worked by hand."""

import pytest
from core_scene import MS, order, scene, starts

from headway.core.messages import Adjust, Dispatch
from headway.policies.moca import Moca
from headway.policies.partition import FLOOR, score, throttled

MODELS = {"two": [2.0], "one": [1.0], "bound": [(1.0, 4e6)] * 2}


def test_what_exceeds_the_limit_is_given_up_by_the_others_weight():
    # 0.9 + 0.9 + 0.9 is 1.2 above 1.5. Equal scores: the others weigh 2 * 90 of 3 * 90, so 0.8 goes, and 0.1
    # stays.
    assert throttled(0.9, 100.0, [(0.9, 100.0)] * 2) == pytest.approx(0.1)
    # Score 200 against 50 twice: 1.2 * 90 / (180 + 90) = 0.4 goes.
    assert throttled(0.9, 200.0, [(0.9, 50.0)] * 2) == pytest.approx(0.5)
    # The floor: 1.2 * 360 / (9 + 360) = 1.17 would go.
    assert throttled(0.9, 10.0, [(0.9, 200.0)] * 2) == FLOOR


def test_within_the_limit_nothing_is_throttled():
    assert throttled(0.9, 10.0, [(0.6, 200.0)]) is None
    assert throttled(0.9, 10.0, []) is None


def test_the_score_is_what_is_left_over_the_slack_and_little_when_late():
    assert score(1.0, 4.0) == 25.0
    assert score(3.0, 1.0) == 200.0
    assert score(3.0, 0.0) == 10.0


def test_priority_and_waiting_in_isolated_latencies_come_first():
    # At 2: 0 + 2 / 2 = 1, 0 + 1.5 / 1 = 1.5, and 1 + 0 / 2 with priority 1; equal ones by arrival.
    requests = [("two", 0, 9), ("two", 0, 9), ("one", 0.5, 9), ("two", 2, 9, {"priority": 1})]
    assert order(scene("moca", requests, MODELS)) == [0, 2, 1, 3]


def test_a_memory_heavy_request_is_put_off_while_another_one_runs():
    log = scene("moca", [("bound", 0, 99), ("bound", 0, 99), ("two", 0, 99)], MODELS, cores=2)
    assert [(row.request, row.cores) for row in log.of("start")][:2] == [(0, "0"), (2, "1")]


def test_groups_take_whole_requests_split_over_them():
    # Eight cores in four groups of two: 2 ms take 1.
    log = scene("moca:groups", [("two", 0, 99)] * 2, MODELS, cores=8)
    assert starts(log) == [(0, 0.0, "0+1", 0, 1), (1, 0.0, "2+3", 0, 1)]
    assert [row.time_s for row in log.of("reply")] == pytest.approx([1 * MS] * 2)


class Watched(Moca):
    """Keeps what it decides about bandwidth."""

    def __init__(self, **options):
        super().__init__(**options)
        self.caps = []

    def decide(self, view):
        for decision in super().decide(view):
            if isinstance(decision, (Adjust, Dispatch)) and decision.bandwidth_cap_bytes_s is not None:
                self.caps.append((view.now / MS, decision.bandwidth_cap_bytes_s / 1e9))
            yield decision


def test_a_layer_is_throttled_when_it_starts_and_anew_at_the_next_one():
    # Each demands everything. Left are 8 ms: due at 16 that is a score of 50, due at 80 one of 10. The first
    # starts alone. The second finds 1 + 1, 0.5 too much, and gives up 50 / (10 + 50) of that: 7/12 is left.
    # The third finds 1 + 1 + 7/12, 13/12 too much, and gives up its part of that.
    policy = Watched()
    requests = [("bound", 0, 16), ("bound", 0, 80), ("bound", 0, 80)]
    scene(policy, requests, MODELS, cores=3)
    first = [(round(at, 6), pytest.approx(cap)) for at, cap in policy.caps[:2]]
    part = 50 + 10 * 7 / 12
    assert first == [(0.0, 7 / 12), (0.0, max(FLOOR, 1 - 13 / 12 * part / (10 + part)))]
    assert any(at > 1.0 for at, _ in policy.caps), "layers that start later are partitioned, too"


def test_without_throttling_nothing_is_capped():
    policy = Watched(throttle=False)
    scene(policy, [("bound", 0, 99)] * 3, MODELS, cores=3)
    assert policy.caps == []
