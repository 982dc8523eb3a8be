"""Bandwidth is shared as a fluid, runs are re-timed when co-runners change."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cost.contention import MaxMinFair, Proportional
from headway.policies import make
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3


def replies(log):
    return {row.request: row.time_s for row in log.of("reply")}


def play_two(first, second, second_arrival_s=0.0, contention=None):
    """Two requests of one block each, on two cores that share 1 GB/s."""
    device = toy_device(2)
    tables = {"a": ToyTable(device, [first]), "b": ToyTable(device, [second])}
    requests = [
        toy_request(0, "a", tables, arrival_s=0.0, deadline_s=1.0),
        toy_request(1, "b", tables, arrival_s=second_arrival_s, deadline_s=1.0),
    ]
    return replies(play(make("fcfs"), device, tables, requests, contention=contention))


def test_two_runs_that_ask_for_no_more_than_there_is_do_not_disturb_each_other():
    assert play_two((1 * MS, 4e5), (2 * MS, 1e6)) == {0: pytest.approx(1 * MS), 1: pytest.approx(2 * MS)}


def test_a_light_run_keeps_its_speed_beside_a_memory_bound_one():
    # 0.3 GB/s asked by the first, all by the second: max-min fair gives 0.3 and 0.7.
    ends = play_two((1 * MS, 3e5), (1 * MS, 2e6))
    assert ends[0] == pytest.approx(1 * MS)
    assert ends[1] == pytest.approx(1 * MS + (2e6 - 0.7e6) / 1e9)


def test_the_proportional_rule_slows_both():
    # 0.3 and 1.0 GB/s asked: each gets 1/1.3 of it until the first ends.
    ends = play_two((1 * MS, 3e5), (2 * MS, 2e6), contention=Proportional(1e9))
    assert ends[0] == pytest.approx(1.3 * MS)
    assert ends[1] == pytest.approx(1.3 * MS + 1.0 * MS)


def test_a_run_is_re_timed_when_a_co_runner_starts():
    # Alone for 1 ms of its 2 ms, then both at half speed.
    ends = play_two((2 * MS, 2e6), (1 * MS, 1e6), second_arrival_s=1 * MS)
    assert ends == {0: pytest.approx(3 * MS), 1: pytest.approx(3 * MS)}


def test_noise_stretches_compute_but_not_bytes():
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1 * MS, 1e5)])}
    request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)
    log = play(make("fcfs"), device, tables, [request], noise={0: (1.5,)})
    assert log.of("reply")[0].time_s == pytest.approx(1.5 * MS)
    assert log.of("progress")[0].dram_bytes == pytest.approx(1e5)


@settings(max_examples=60, deadline=None)
@given(
    blocks=st.lists(st.tuples(st.floats(1e-5, 1e-2), st.floats(0.0, 2e7)), min_size=1, max_size=4),
    arrivals=st.lists(st.floats(0.0, 2e-2), min_size=1, max_size=12),
    cores=st.integers(1, 3),
    name=st.sampled_from(["fcfs", "sjf", "edf", "laxity", "lucas", "lucas:lbl", "lucas:scf", "lucas:mcf"]),
    steps=st.integers(1, 5),
)
def test_work_bytes_and_cores_are_conserved_under_every_policy(blocks, arrivals, cores, name, steps):
    device = toy_device(cores)
    tables = {"m": ToyTable(device, blocks, steps=steps, spill_bytes=1e4)}
    requests = [
        toy_request(i, "m", tables, arrival_s=at, deadline_s=at + 3 * tables["m"].remaining_s[0])
        for i, at in enumerate(arrivals)
    ]
    log = play(make(name), device, tables, requests)
    answered = {row.request: row for row in log.of("reply")}
    assert sorted(answered) == list(range(len(arrivals)))
    for request, reply in answered.items():
        kept = [r for r in log.of("progress") if r.request == request and r.reason is None]
        done = sum(r.share * (r.end_block - r.first_block) for r in kept)
        if reply.outcome == "done" and not any(r.event == "stop" for r in log):
            assert done == pytest.approx(len(blocks), rel=1e-6)
        if reply.outcome == "done":
            assert done >= len(blocks) * (1 - 1e-6)  # a discarded partial run may be done again
    busy = sorted(
        (int(core), row.start_s, row.time_s) for row in log.of("progress") for core in row.cores.split("+")
    )
    for (core, _, end), (next_core, start, _) in pairwise(busy):
        assert core != next_core or start >= end - 1e-12
    for row in log.of("progress"):
        span = row.time_s - row.start_s
        assert row.dram_bytes <= device.dram_bandwidth_bytes_s * span * (1 + 1e-6) + 1e-6
    total = sum(row.dram_bytes for row in log.of("progress"))
    assert total <= device.dram_bandwidth_bytes_s * log[-1].time_s * (1 + 1e-6) + 1e-6


def test_the_same_requests_give_the_same_log():
    def once():
        device = toy_device(2)
        tables = {"m": ToyTable(device, [(1 * MS, 1e6), (3 * MS, 1e5)], steps=3)}
        requests = [
            toy_request(i, "m", tables, arrival_s=i * 0.7 * MS, deadline_s=i * 0.7 * MS + 9 * MS)
            for i in range(40)
        ]
        return play(make("lucas"), device, tables, requests)

    assert once() == once()


def test_max_min_fair_never_exceeds_capacity():
    assert (
        sum(d * r for d, r in zip([1e9, 5e8, 1e8], MaxMinFair(1e9).rates([1e9, 5e8, 1e8]), strict=True))
        <= 1e9 + 1
    )
