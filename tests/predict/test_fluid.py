"""The fluid base of overlap prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Pressure, Segment
from headway.cost.contention import MOST_LOSS, fluid_loss
from headway.predict.fluid import Blocks, fluid_losses, fluid_times

SHARE = st.floats(0.0, 1.0)
SECONDS = st.floats(1e-4, 10.0)


def segment(
    seconds: float, compute: float = 0.0, memory: float = 0.0, occupancy: float = 0.0, gap: float = 0.0
):
    return Segment(0, 1, 0.0, seconds, 0.0, pressure=Pressure("m", 0, 1, compute, memory, occupancy, gap))


SEGMENT = st.builds(segment, SECONDS, SHARE, SHARE, SHARE, SHARE)


def blocks(*segments: Segment) -> Blocks:
    return Blocks.of(segments)


def loss(one: Segment, other: Segment) -> float:
    return float(fluid_losses(blocks(one), blocks(other))[0])


def test_two_that_together_fit_lose_nothing():
    assert loss(segment(2.0, 0.5, 0.2), segment(1.0, 0.5, 0.8)) == 0.0


def test_two_that_want_more_than_there_is_by_hand():
    # 1.4 of the compute is wanted: the shorter ends at 1.4, the longer has done 1 of 2 by then, so 2.4.
    assert loss(segment(2.0, 0.8), segment(1.0, 0.6)) == pytest.approx(0.4)


def test_the_most_wanted_of_what_is_shared_decides():
    assert loss(segment(1.0, 0.7, 0.9, 0.2), segment(1.0, 0.6, 0.9, 0.2)) == pytest.approx(0.8)
    assert loss(segment(1.0, 0.1, 0.1, 0.9), segment(1.0, 0.1, 0.1, 0.6)) == pytest.approx(0.5)


def test_gaps_are_not_stretched_by_hand():
    # Half of the shorter is gaps: it takes 1.2, in which the longer does 1.2 / 1.4; 2 - 0.857 are left.
    assert loss(segment(2.0, 0.8), segment(1.0, 0.6, gap=0.5)) == pytest.approx(1.2 + 2 - 1.2 / 1.4 - 2)
    assert loss(segment(2.0, 1.0, gap=1.0), segment(1.0, 1.0, gap=1.0)) == 0.0


def test_lists_of_blocks_go_through_their_events_by_hand():
    # The first block is stretched to 1.4, in which the other does 1 of its 2; then both fit and take 1 more.
    candidate = blocks(segment(1.0, 0.8), segment(1.0, 0.2))
    times, losses = fluid_times([candidate], blocks(segment(2.0, 0.6)))
    assert times == pytest.approx([2.4])
    assert losses == pytest.approx([0.2])


def test_after_one_has_ended_the_other_goes_at_full_speed():
    times, losses = fluid_times([blocks(segment(1.0, 1.0))], blocks(*[segment(1.0, 1.0)] * 4))
    assert times == pytest.approx([5.0])
    assert losses == pytest.approx([1.0])


@settings(deadline=None, max_examples=100)
@given(
    st.lists(SEGMENT, min_size=1, max_size=4), st.lists(st.lists(SEGMENT, min_size=1, max_size=4), min_size=1)
)
def test_many_candidates_are_each_as_if_alone_and_bounded(beside, candidates):
    other = blocks(*beside)
    every = [blocks(*each) for each in candidates]
    times, losses = fluid_times(every, other)
    for each, seconds, w in zip(every, times, losses, strict=True):
        alone, alone_w = fluid_times([each], other)
        assert (seconds, w) == (pytest.approx(alone[0]), pytest.approx(alone_w[0], abs=1e-9))
        both = sorted([each.seconds.sum(), other.seconds.sum()])
        assert -1e-9 <= w <= 1.0 + 1e-6 < MOST_LOSS
        assert both[1] - 1e-9 <= seconds <= sum(both) * (1 + 1e-9)


@settings(deadline=None, max_examples=200)
@given(SEGMENT, SEGMENT)
def test_the_scalar_rule_the_rows_and_the_events_agree_and_order_does_not_matter(one, other):
    w = fluid_loss(one, other)
    assert 0.0 <= w <= 1.0 + 1e-9
    assert fluid_loss(other, one) == pytest.approx(w, abs=1e-9)
    assert loss(one, other) == pytest.approx(w, abs=1e-9)
    assert fluid_times([blocks(one)], blocks(other))[1][0] == pytest.approx(w, abs=1e-6)


@settings(deadline=None, max_examples=100)
@given(SEGMENT, SEGMENT, st.integers(2, 5))
def test_cutting_a_block_into_equal_parts_changes_nothing(one, other, parts):
    pressure = one.pressure
    part = segment(one.compute_s / parts, *pressure[3:7])
    whole, _ = fluid_times([blocks(one)], blocks(other))
    cut, _ = fluid_times([blocks(*[part] * parts)], blocks(other))
    assert cut[0] == pytest.approx(whole[0])


def test_a_list_without_blocks_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        fluid_times([], blocks(segment(1.0)))


def test_segments_without_a_pressure_ask_for_nothing():
    silent = Segment(0, 1, 0.0, 1.0, 0.0)
    assert fluid_loss(silent, segment(1.0, 1.0)) == 0.0
    assert np.all(fluid_losses(blocks(silent), blocks(segment(1.0, 1.0))) == 0.0)
