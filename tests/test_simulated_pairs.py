"""Pairs of the zoo's models on a simulated GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.core.block import Pressure, Segment
from headway.core.errors import HeadwayError
from headway.predict.splits import shipped_splits
from headway.wiring.simulated_pairs import simulated_pairs, soft_loss

FEW = replace(shipped_splits(), families={"vgg": ("vgg11",), "shufflenet": ("shufflenet_v2",)})


def segment(seconds: float, *asked: float) -> Segment:
    return Segment(0, 1, 0.0, seconds, 0.0, pressure=Pressure("m", 0, 1, *asked, 0.0))


def test_the_soft_rule_by_hand() -> None:
    idle = segment(1.0, 0.0, 0.0, 0.0)
    assert soft_loss(idle, idle) == 0.0
    half = segment(1.0, 0.5, 0.0, 0.0)
    # Both: (1 + 1)^(1/3) over (1 + 1/8)^(1/3) each, so that two of a second take that long.
    assert soft_loss(half, half) == pytest.approx((2 / 1.125) ** (1 / 3) - 1)
    full = segment(1.0, 1.0, 1.0, 1.0)
    assert soft_loss(full, full) > soft_loss(half, half)
    assert soft_loss(half, full) == pytest.approx(soft_loss(full, half))


def test_pairs_are_drawn_by_seed_within_bounds() -> None:
    pairs = simulated_pairs("fluid", "a100-sxm-40gb", 40, FEW, 3)
    assert len(pairs) == 40
    assert (pairs.shorter > 0.08 * pairs.longer).all()  # a tenth, but for the noise
    assert (pairs.together > 0.9 * pairs.longer).all()
    assert {each.family for pair in pairs.members for each in pair} == {"vgg", "shufflenet"}
    assert all(0 <= each.first < each.end for pair in pairs.members for each in pair)
    wrong = np.abs(pairs.together - pairs.seconds(pairs.fluid)) / pairs.together
    assert wrong.mean() < 0.1
    again = simulated_pairs("fluid", "a100-sxm-40gb", 40, FEW, 3)
    np.testing.assert_array_equal(again.rounds, pairs.rounds)


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwayError, match="rule 'hard'; accepted: fluid, soft"):
        simulated_pairs("hard", "a100-sxm-40gb", 5, FEW, 0)
    with pytest.raises(HeadwayError, match="nothing-100"):
        simulated_pairs("fluid", "nothing-100", 5, FEW, 0)
