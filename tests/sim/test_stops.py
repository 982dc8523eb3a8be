"""What a run that is stopped still moves, and that it moves it in competition with the others."""

import pytest

from headway.core.block import Mode
from headway.core.messages import Dispatch, Drop, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.run import How
from headway.policies import Policy
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3


class Once(Policy):
    """Starts every request on the next core in one mode, and at `at_s` does `then` to the runs, once."""

    needs = frozenset(Capability)

    def __init__(self, mode, at_s, then):
        self.mode, self.at_s, self.then = mode, at_s, then

    def decide(self, view):
        for request, core in zip(view.ready, view.idle, strict=False):
            yield Dispatch((request,), range(request.next_block, request.blocks), (core,), self.mode)
        if self.then and view.now >= self.at_s:
            then, self.then = self.then, None
            yield from (then(run) for run in view.running)
        elif self.then:
            yield Wake(self.at_s)


def scene(count, *, blocks=((1 * MS, 0.0), (1 * MS, 0.0)), **table):
    device = toy_device(count)
    tables = {"m": ToyTable(device, blocks, **table)}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.0) for i in range(count)]
    return device, tables, requests


def spill(run):
    return Preempt(run, How.SPILL)


def test_two_runs_that_spill_at_once_share_the_bandwidth():
    # Both stop at 0.5 ms and write 1e5 bytes each at 1 GB/s: together that takes 0.2 ms, not 0.1.
    log = play(Once(Mode.FUSED, 0.3 * MS, spill), *scene(2, steps=4, spill_bytes=1e5))
    stops = log.of("stop")
    assert [row.time_s for row in stops] == [pytest.approx(0.7 * MS)] * 2


def test_a_run_that_spills_slows_one_that_reads():
    device = toy_device(2)
    tables = {
        "writes": ToyTable(device, [(0.5 * MS, 0.0)] * 2, steps=4, spill_bytes=2e5),
        "reads": ToyTable(device, [(1 * MS, 1e6), (0.0, 1e6)]),
    }
    requests = [
        toy_request(i, model, tables, arrival_s=0.0, deadline_s=1.0)
        for i, model in enumerate(("writes", "reads"))
    ]

    class SpillsTheFirst(Once):
        def decide(self, view):
            for decision in super().decide(view):
                if not (isinstance(decision, Preempt) and decision.run.request.id == 1):
                    yield decision

    log = play(SpillsTheFirst(Mode.FUSED, 0.3 * MS, spill), device, tables, requests)
    # It reads 1e6 bytes in 1 ms alone; from 0.5 ms on the other writes 2e5 bytes, at half the bandwidth, and
    # then reads them back while it goes on.
    assert log.of("stop")[0].time_s == pytest.approx(0.9 * MS)
    assert {row.request: row.time_s for row in log.of("reply")}[1] == pytest.approx(1.4 * MS)


def test_nobody_spills_for_a_request_that_is_given_up():
    def drop(run):
        return Drop(run.request, "no hope")

    log = play(Once(Mode.FUSED, 0.3 * MS, drop), *scene(1, steps=4, spill_bytes=1e5))
    assert log.of("reply")[0].time_s == pytest.approx(0.5 * MS)
    assert log.of("progress")[0].dram_bytes == 0.0


def test_an_output_left_in_sram_is_written_when_the_run_is_stopped_there():
    # Block 0 leaves 1e5 bytes for block 1 unwritten; a stop between them writes those: 0.1 ms at 1 GB/s.
    device, tables, requests = scene(1)
    tables["m"].unwritten_bytes = [[1e5], [0.0]]
    log = play(Once(Mode.SERIAL, 0.3 * MS, lambda run: Preempt(run, How.DRAIN)), device, tables, requests)
    assert log.of("stop")[0].time_s == pytest.approx(1.1 * MS)
    assert log.of("progress")[0].dram_bytes == pytest.approx(1e5)


def test_a_kill_writes_the_input_that_the_block_before_left_in_sram():
    device, tables, requests = scene(1)
    tables["m"].unwritten_bytes = [[1e5], [0.0]]
    log = play(Once(Mode.SERIAL, 1.3 * MS, lambda run: Preempt(run, How.KILL)), device, tables, requests)
    lost = log.of("progress")[1]
    assert (lost.reason, lost.dram_bytes) == ("lost", pytest.approx(1e5))
    assert log.of("stop")[0].time_s == pytest.approx(1.4 * MS)


def test_what_a_block_has_no_traffic_to_save_with_goes_to_the_next():
    # Two runs on core 0. The second finds 3e5 bytes in SRAM; its blocks move 1e5, 1e5 and 5e5.
    blocks = [(1 * MS, 4e5), (1 * MS, 1e5), (1 * MS, 1e5), (1 * MS, 5e5)]
    device, tables, requests = scene(1, blocks=blocks, kept=3e5)

    class TwoRuns(Policy):
        def decide(self, view):
            for request in view.ready:
                end = 1 if request.next_block == 0 else 4
                yield Dispatch((request,), range(request.next_block, end), view.device.cores[:1])

    log = play(TwoRuns(), device, tables, requests)
    moved = [row.dram_bytes for row in log.of("progress")]
    assert moved == [pytest.approx(each) for each in (4e5, 0.0, 0.0, 4e5)]
