"""Even blocks: the dynamic programme against exhaustive search, and its limits."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.models.even import BlockLimits, PricedCut, PricedSum, even_blocks, target_block_s

MS = 1e-3


def everywhere(count: int, overhead_s: float = 0.0) -> list[PricedCut]:
    return [PricedCut(position, overhead_s) for position in range(1, count)]


def objective(
    node_s: list[float],
    cuts: dict[int, PricedCut],
    sums: list[PricedSum],
    chosen: tuple[int, ...],
    target_s: float,
) -> float:
    bounds = (0, *chosen, len(node_s))
    lengths = [sum(node_s[a:b]) for a, b in pairwise(bounds)]
    price = sum(cuts[position].overhead_s + cuts[position].cold_s for position in chosen)
    price += copies_s(sums, bounds)
    return sum((length / target_s - 1) ** 2 for length in lengths) + price / target_s


def copies_s(sums: list[PricedSum], bounds: tuple[int, ...]) -> float:
    return sum(
        each.copy_s
        for each in sums
        for a, b in pairwise(bounds)
        if a <= each.place < b and (each.made_at < a) != (each.last_read_at >= b)
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.0, 3 * MS), min_size=2, max_size=9),
    st.data(),
)
def test_no_other_choice_of_cuts_is_better(node_s: list[float], data: st.DataObject) -> None:
    positions = data.draw(st.sets(st.integers(1, len(node_s) - 1)).map(sorted))
    costs = st.floats(0.0, 0.5 * MS)
    cuts = [PricedCut(position, data.draw(costs), data.draw(costs)) for position in positions]
    places = data.draw(st.lists(st.integers(1, len(node_s) - 1), max_size=3))
    sums = [
        PricedSum(
            place,
            data.draw(st.integers(0, place - 1)),
            data.draw(st.integers(place, len(node_s) - 1)),
            data.draw(costs),
        )
        for place in places
    ]
    limits = BlockLimits(target_s=2 * MS, longest_s=4 * MS, overhead_share=float("inf"))
    found = even_blocks(node_s, cuts, limits, sums)
    by_position = {cut.position: cut for cut in cuts}

    def allowed(chosen: tuple[int, ...]) -> bool:
        return all(
            sum(node_s[a:b]) <= 4 * MS * (1 + 1e-9) or not any(a < position < b for position in positions)
            for a, b in pairwise((0, *chosen, len(node_s)))
        )

    if sum(node_s) <= 2 * MS:
        assert found.positions == ()
        return
    choices = [c for size in range(len(positions) + 1) for c in combinations(positions, size) if allowed(c)]
    best = min(objective(node_s, by_position, sums, chosen, 2 * MS) for chosen in choices)
    assert found.positions in choices
    assert objective(node_s, by_position, sums, found.positions, 2 * MS) == pytest.approx(best, abs=1e-9)
    assert sum(found.block_s) == pytest.approx(sum(node_s))
    boundaries_s = sum(by_position[position].overhead_s for position in found.positions)
    bounds = (0, *found.positions, len(node_s))
    assert found.overhead_s == pytest.approx(boundaries_s + copies_s(sums, bounds))


def test_equal_nodes_make_equal_blocks_of_the_target_s_length() -> None:
    found = even_blocks([0.5 * MS] * 40, everywhere(40, 1e-6))
    assert found.positions == tuple(range(4, 40, 4))
    assert found.block_s == pytest.approx([2 * MS] * 10)
    assert found.overhead_s == pytest.approx(9e-6)
    assert found.reason == ""


def test_of_two_equally_even_cuts_the_cheaper_one_is_taken() -> None:
    cuts = [PricedCut(1, 5e-6, 50e-6), PricedCut(2, 5e-6, 1e-6), PricedCut(3, 5e-6, 50e-6)]
    found = even_blocks([2 * MS, 1e-9, 1e-9, 2 * MS], cuts)
    assert found.positions == (2,)


def test_dear_boundaries_make_longer_blocks_within_their_share() -> None:
    cheap = even_blocks([0.5 * MS] * 40, everywhere(40, 1e-6))
    dear = even_blocks([0.5 * MS] * 40, everywhere(40, 0.1 * MS))
    assert len(dear.positions) < len(cheap.positions)
    assert dear.overhead_s <= 0.03 * 20 * MS
    assert max(dear.block_s) <= 4 * MS + 1e-9


def test_longest_block_is_kept_even_where_boundaries_then_cost_too_much_and_that_is_said() -> None:
    found = even_blocks([0.5 * MS] * 40, everywhere(40, 1 * MS))
    assert max(found.block_s) <= 4 * MS + 1e-9
    assert found.overhead_s > 0.03 * 20 * MS
    assert "4.0 ms" in found.reason


def test_one_long_operator_stays_whole_and_alone() -> None:
    found = even_blocks([1 * MS, 9 * MS, 1 * MS], everywhere(3, 1e-6))
    assert found.positions == (1, 2)


def test_operator_that_nothing_may_be_cut_from_may_exceed_the_limit() -> None:
    found = even_blocks([3 * MS, 3 * MS, 1 * MS], [PricedCut(2, 1e-6)])
    assert found.positions == (2,)


@pytest.mark.parametrize(
    ("node_s", "cuts", "reason"),
    [
        ([0.4 * MS, 0.4 * MS], everywhere(2), "0.80 ms, no longer than one block"),
        ([9 * MS], [], "no place where it may be cut"),
        ([2.1 * MS, 0.1 * MS], everywhere(2), "two blocks would be further"),
    ],
)
def test_model_that_stays_whole_says_why(node_s: list[float], cuts: list[PricedCut], reason: str) -> None:
    found = even_blocks(node_s, cuts)
    assert found.positions == ()
    assert reason in found.reason


def test_shorter_target_makes_more_blocks() -> None:
    short = even_blocks([0.1 * MS] * 60, everywhere(60, 1e-6), BlockLimits(target_s=0.3 * MS))
    assert len(short.positions) == 19


def test_target_follows_the_tightest_sla_within_its_limits() -> None:
    assert target_block_s(50 * MS) == pytest.approx(1 * MS)
    assert target_block_s(1.0) == pytest.approx(2 * MS)
    assert target_block_s(1 * MS) == pytest.approx(0.3 * MS)


def test_impossible_limits_and_times_are_refused() -> None:
    with pytest.raises(HeadwayError, match="target_s"):
        BlockLimits(target_s=0.0)
    with pytest.raises(HeadwayError, match="longest_s"):
        BlockLimits(target_s=2 * MS, longest_s=1 * MS)
    with pytest.raises(HeadwayError, match="negative"):
        even_blocks([1 * MS, -1 * MS], everywhere(2))
