"""Runs on lanes: how they overlap, and that no work is lost or done twice under any policy."""

from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cost import OverlapLoss
from headway.policies import make
from headway.sim.speed import HOLDS_S, BareRun, Speed, Stretch, alternating, repeated, stretches_of
from headway.sim.warm import WarmStarts
from headway.testing import play, toy_lane_table, toy_lanes, toy_request
from headway.workload.draws import stream

MS = 1e-3

POLICIES = [
    *("fcfs", "fcfs:wide", "sjf", "edf", "edf:wide", "edf:adaptive"),
    *("laxity", "laxity:wide", "laxity:adaptive", "split", "gslice", "orion", "reef", "lucas"),
]

SOLO_S = st.floats(1e-4, 1e-1)


def play_on(name, blocks, arrivals, *, lanes=2, w=0.0, noise=None, speed=None, warm=None, **overheads):
    """Requests as (model, arrival s, fields); blocks as seconds by width, for each model."""
    device = toy_lanes(lanes)
    tables = {model: toy_lane_table(device, seconds, **overheads) for model, seconds in blocks.items()}
    requests = [
        toy_request(at, model, tables, arrival_s=when, deadline_s=when + 3 * tables[model].isolated_s, **more)
        for at, (model, when, more) in enumerate(arrivals)
    ]
    return play(
        make(name), device, tables, requests, contention=OverlapLoss(w), noise=noise, speed=speed, warm=warm
    )


@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(SOLO_S, min_size=1, max_size=4),
    second=st.lists(SOLO_S, min_size=1, max_size=4),
    w=st.floats(0.0, 2.0),
)
def test_two_that_start_together_take_the_longer_time_and_w_times_the_shorter(first, second, w):
    log = play_on("fcfs", {"a": {1: first}, "b": {1: second}}, [("a", 0.0, {}), ("b", 0.0, {})], w=w)
    longer, shorter = max(sum(first), sum(second)), min(sum(first), sum(second))
    ends = sorted(row.time_s for row in log.of("reply"))
    assert ends[1] == pytest.approx(longer + w * shorter)
    assert ends[0] == pytest.approx(shorter * (1 + w))


@pytest.mark.parametrize("name", ["fcfs:wide", "edf:wide", "edf:adaptive", "split", "gslice"])
def test_alone_on_a_wide_run_a_request_takes_the_wide_time(name):
    blocks = {"m": {1: [2 * MS, 3 * MS], 2: [1.2 * MS, 1.7 * MS]}}
    log = play_on(name, blocks, [("m", 0.0, {})], w=0.4, dispatch_s=0.05 * MS, switch_s=0.05 * MS)
    # A first block's own time has the switch from another model in it.
    assert log.of("reply")[0].time_s == pytest.approx((0.05 + 1.2 + 1.7) * MS)


def test_the_belief_about_a_wide_run_is_its_wide_time():
    blocks = {"m": {1: [2 * MS, 3 * MS], 2: [1.2 * MS, 1.7 * MS]}}
    (start,) = play_on("fcfs:wide", blocks, [("m", 0.0, {})]).of("start")
    assert start.expected_end_s == pytest.approx(2.9 * MS)


def test_the_belief_about_a_run_beside_another_regards_the_overlap():
    log = play_on("fcfs", {"m": {1: [2 * MS, 2 * MS]}}, [("m", 0.0, {}), ("m", 0.0, {})], w=0.5)
    assert [row.expected_end_s for row in log.of("start")] == pytest.approx([4 * MS, 6 * MS])


def test_noise_stretches_blocks_on_lanes_too():
    log = play_on("fcfs", {"m": {1: [2 * MS, 2 * MS]}}, [("m", 0.0, {})], noise={0: (1.5, 0.5)})
    assert [row.time_s for row in log.of("progress")] == pytest.approx([3 * MS, 4 * MS])


def test_a_run_on_a_lane_that_was_just_busy_saves_what_a_warm_dispatch_does():
    # The second one waits for the lane, the third comes 5 ms after that, the fourth 20 ms after the third.
    arrivals = [("m", at * MS, {}) for at in (0.0, 1.0, 10.2, 33.0)]
    log = play_on(
        "fcfs",
        {"m": {1: [2 * MS]}},
        arrivals,
        lanes=1,
        dispatch_s=0.5 * MS,
        warm=WarmStarts(10 * MS, 0.4 * MS),
    )
    took_s = [end.time_s - start.time_s for start, end in zip(log.of("start"), log.of("reply"), strict=True)]
    assert took_s == pytest.approx([2.5 * MS, 2.1 * MS, 2.1 * MS, 2.5 * MS])


@given(
    stretches=st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(0.5, 10.0)), max_size=6),
    from_s=st.floats(0.0, 5.0),
    work_s=st.floats(0.0, 5.0),
)
def test_work_done_until_its_end_is_the_work(stretches, from_s, work_s):
    speed = Speed(iter([Stretch(*each) for each in stretches]))
    end_s = speed.end_s(from_s, work_s)
    assert speed.work_s(from_s, end_s) == pytest.approx(work_s, abs=1e-9)
    slowest = max([1.0, *(factor for _, factor in stretches)])
    assert from_s <= end_s <= from_s + work_s * slowest + 1e-9


def test_all_lanes_are_slow_while_the_machine_is():
    blocks = {"m": {1: [4 * MS]}, "n": {1: [6 * MS]}}
    speed = Speed(iter([Stretch(2 * MS, 1.0), Stretch(6 * MS, 3.0)]))
    log = play_on("fcfs", blocks, [("m", 0.0, {}), ("n", 0.0, {})], speed=speed)
    # 2 ms of each are done at 2 ms, 2 more at 8 ms.
    assert [row.time_s for row in log.of("reply")] == pytest.approx([8 * MS, 10 * MS])


def test_stretches_hold_until_the_next_run_and_are_the_mean_of_lanes():
    runs = [
        BareRun(0.0, 2.0, 1.0),  # half the speed
        BareRun(2.01, 4.0, 2.0),  # the same
        BareRun(10.0, 2.0, 2.0),
        BareRun(11.0, 1.0 + HOLDS_S, (1.0 + HOLDS_S) / 2, lane=1),
    ]
    assert stretches_of(runs) == [
        (pytest.approx(6.01 + HOLDS_S), 2.0),
        (pytest.approx(1.0), 1.0),
        (pytest.approx(1.0 + HOLDS_S), pytest.approx(4 / 3)),
        (pytest.approx(HOLDS_S), 2.0),
    ]
    assert stretches_of([]) == []
    again = list(islice(repeated([Stretch(0.4, 1.0), Stretch(0.1, 3.0)], stream(1, "test")), 4000))
    slow_s = sum(stretch.duration_s for stretch in again if stretch.factor == 3.0)
    assert slow_s == pytest.approx(0.2 * sum(stretch.duration_s for stretch in again))
    assert list(repeated([], stream(1, "test"))) == []


def test_slow_stretches_come_as_often_and_last_as_long_as_they_should():
    found = list(islice(alternating(3.0, 0.1, 1.0, stream(1, "test")), 4000))
    slow = [stretch.duration_s for stretch in found if stretch.factor == 3.0]
    assert sum(slow) / len(slow) == pytest.approx(0.1, rel=0.1)
    assert sum(stretch.duration_s for stretch in found) / len(slow) == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25, deadline=None)
@given(
    blocks=st.lists(st.floats(1e-4, 4e-3), min_size=1, max_size=4),
    speed=st.floats(0.9, 4.0),
    arrivals=st.lists(
        st.tuples(st.floats(0.0, 2e-2), st.sampled_from(["a", "b", "c"]), st.booleans(), st.integers(0, 1)),
        min_size=1,
        max_size=12,
    ),
    lanes=st.integers(1, 4),
    w=st.floats(0.0, 1.5),
    factor=st.floats(0.5, 2.0),
)
def test_work_and_lanes_are_conserved(name, blocks, speed, arrivals, lanes, w, factor):
    seconds = {"m": {1: blocks, 2: [each / speed for each in blocks]}}
    requests = [
        ("m", at, {"tenant": tenant, "strict": strict, "priority": priority})
        for at, tenant, strict, priority in arrivals
    ]
    noise = {request: [factor] * len(blocks) for request in range(0, len(arrivals), 2)}
    log = play_on(name, seconds, requests, lanes=lanes, w=w, noise=noise, dispatch_s=1e-5)

    answered = {row.request: row for row in log.of("reply")}
    assert sorted(answered) == list(range(len(arrivals)))
    for request, reply in answered.items():
        done = [
            (row.first_block, row.end_block)
            for row in log.of("progress")
            if row.request == request and row.share == pytest.approx(1.0)
        ]
        assert done == [(block, block + 1) for block in range(len(done))]  # each once, and in order
        assert reply.outcome == "dropped" or len(done) == len(blocks)
        assert reply.outcome == "done" or name.startswith("laxity")
    stretches = sorted(
        (int(lane), row.start_s, row.time_s) for row in log.of("progress") for lane in row.cores.split("+")
    )
    for (lane, _, end), (next_lane, start, _) in pairwise(stretches):
        assert lane != next_lane or start >= end - 1e-12
    busy_s = sum(end - start for _, start, end in stretches)
    assert busy_s <= lanes * log[-1].time_s * (1 + 1e-9)
    least_s = sum(blocks) * min(1.0, 2.0 / speed) * min(1.0, factor)  # lane time of a request
    done_count = sum(row.outcome == "done" for row in answered.values())
    assert busy_s >= done_count * least_s * (1 - 1e-9)
