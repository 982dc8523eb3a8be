"""Costs on lanes are what was measured."""

from __future__ import annotations

import pytest

from headway.core.block import Mode
from headway.core.errors import HeadwayError
from headway.cost import LaneTable, build_table
from headway.testing import toy_lane_table, toy_lanes

MS = 1e-3


def table(lanes: int = 2, **more: float) -> LaneTable:
    """Three blocks, measured with one and two threads."""
    seconds = {1: [1 * MS, 2 * MS, 4 * MS], 2: [0.6 * MS, 1.1 * MS, 2.1 * MS]}
    return toy_lane_table(toy_lanes(lanes), seconds, **more)


def seconds(option) -> float:
    return option.seconds(float("inf"))


def test_a_serial_run_takes_what_its_blocks_take_on_one_lane() -> None:
    costs = table()
    assert seconds(costs.option(Mode.SERIAL, 0, 3, (0,))) == pytest.approx(7 * MS)
    assert seconds(costs.option(Mode.SERIAL, 1, 2, (0,))) == pytest.approx(2 * MS)
    assert [row[0] for row in costs.serial_s] == pytest.approx([1 * MS, 2 * MS, 4 * MS])
    assert costs.remaining_s == pytest.approx([7 * MS, 6 * MS, 4 * MS, 0.0])


def test_a_split_run_takes_what_was_measured_with_as_many_threads() -> None:
    costs = table()
    assert costs.lanes_measured == (1, 2)
    assert seconds(costs.option(Mode.SPLIT, 0, 3, (0, 0))) == pytest.approx(3.8 * MS)
    assert seconds(costs.option(Mode.SPLIT, 2, 3, (0, 0))) == pytest.approx(2.1 * MS)
    assert costs.isolated_s == pytest.approx(3.8 * MS)


def test_a_run_pays_for_its_dispatch_once_and_for_a_switch_if_it_goes_on_inside_a_model() -> None:
    costs = table(dispatch_s=0.1 * MS, switch_s=0.2 * MS)
    whole = costs.option(Mode.SERIAL, 0, 3, (0,))
    assert whole.fixed_s == pytest.approx(0.1 * MS)
    assert seconds(whole) == pytest.approx(7.1 * MS)
    assert [part.fixed_s for part in costs.segments(whole)] == pytest.approx([0.1 * MS, 0.0, 0.0])
    rest = costs.option(Mode.SERIAL, 1, 3, (0,))
    assert [part.fixed_s for part in costs.segments(rest)] == pytest.approx([0.3 * MS, 0.0])
    assert costs.serial_s[1][0] == pytest.approx(2.3 * MS)
    assert costs.remaining_s == pytest.approx([7.1 * MS, 6.3 * MS, 4.3 * MS, 0.0])


@pytest.mark.parametrize(("mode", "kinds"), [(Mode.SERIAL, (0,)), (Mode.SPLIT, (0, 0))])
def test_segments_are_blocks_and_add_up(mode: Mode, kinds: tuple[int, ...]) -> None:
    costs = table(dispatch_s=0.1 * MS)
    option = costs.option(mode, 1, 3, kinds)
    parts = costs.segments(option)
    assert [(part.first_block, part.end_block, part.steps) for part in parts] == [(1, 2, 1), (2, 3, 1)]
    assert sum(part.solo_s(float("inf")) for part in parts) == pytest.approx(seconds(option))


def test_lanes_of_several_threads_are_priced_at_their_width() -> None:
    device = toy_lanes(2, threads=2)
    costs = toy_lane_table(device, {1: [9.0], 2: [5.0], 4: [3.0]})
    assert costs.serial_s == [[5.0]]
    assert seconds(costs.option(Mode.SPLIT, 0, 1, (0, 0))) == 3.0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ((Mode.SPLIT, 0, 3, (0, 0, 0)), r"split run .* not measured on 3 lanes; accepted: 2"),
        ((Mode.SPLIT, 0, 3, (0,)), r"not measured on 1 lanes; accepted: 2"),
        ((Mode.SERIAL, 0, 3, (0, 0)), r"takes one lane, not 2"),
        ((Mode.SERIAL, 0, 4, (0,)), r"blocks 0 to 4 .* has blocks 0 to 3"),
        ((Mode.SERIAL, 2, 2, (0,)), r"needs at least one"),
        ((Mode.SERIAL, 0, 1, (1,)), r"all lanes are of type 0"),
        ((Mode.FUSED, 0, 2, (0,)), r"on lanes a run is serial or split"),
        ((Mode.PIPELINE, 0, 2, (0, 0), (1,)), r"on lanes a run is serial or split"),
    ],
)
def test_what_cannot_be_run_is_refused(ask: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table(lanes=3).option(*ask)


def test_nothing_is_fused_or_pipelined() -> None:
    assert [*table().stacks(0), *table().pipelines(0)] == []


def test_a_width_that_was_not_measured_is_named() -> None:
    with pytest.raises(HeadwayError, match="not profiled with 4 threads; accepted: 1, 2"):
        toy_lane_table(toy_lanes(1, threads=4), {1: [1.0], 2: [1.0]})


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="no blocks"):
        toy_lane_table(toy_lanes(1), {1: []})


def test_layers_are_not_priced_on_lanes() -> None:
    from headway.models import load_model, zoo

    with pytest.raises(HeadwayError, match="toy-lanes has lanes: what kws_res8 costs there is measured"):
        build_table(load_model(zoo.build("kws_res8", weights=False), name="kws_res8"), toy_lanes(2))
