"""Latency and demands of a model's blocks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.models import load_model
from headway.predict.gpu import block_seconds, even_cuts, kernel_demands, known_device


@pytest.fixture(scope="module")
def resnet():
    return load_model("resnet18", dims={"batch": 8}, check_runtime=False)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_blocks_add_up_to_the_model_wherever_it_is_cut(resnet, data):
    last = len(resnet.layers) - 1
    cuts = sorted(data.draw(st.sets(st.integers(1, last), max_size=5)))
    device = known_device("h100-sxm")
    (whole,) = block_seconds(resnet, (), device)
    parts = block_seconds(resnet, cuts, device)
    for name in ("middle_s", "low_s", "high_s", "kernels"):
        assert sum(getattr(part, name) for part in parts) == pytest.approx(getattr(whole, name))
    for part in parts:
        assert part.low_s <= part.middle_s <= part.high_s
        assert 0 <= part.extrapolated_share <= 1
        assert bool(part.reasons) == (part.extrapolated_share > 0)


def test_demands_are_shares_and_a_smaller_batch_fills_less(resnet):
    device = known_device("v100")
    cuts = even_cuts(resnet, 4, device)
    for demand in kernel_demands(resnet, cuts, device):
        assert 0 < demand.compute <= 1
        assert 0 < demand.bandwidth <= 1
        assert 0 < demand.occupancy <= 1
    (large,) = kernel_demands(resnet, (), device)
    (small,) = kernel_demands(load_model("resnet18", check_runtime=False), (), device)
    assert small.occupancy < large.occupancy
    assert small.compute < large.compute


def test_even_cuts_balance_the_blocks(resnet):
    device = known_device("t4")
    blocks = block_seconds(resnet, even_cuts(resnet, 4, device), device)
    assert 2 <= len(blocks) <= 4
    assert max(block.middle_s for block in blocks) < 0.6 * sum(block.middle_s for block in blocks)


@pytest.mark.parametrize("cuts", [(0,), (5, 5), (9, 3), (100_000,)])
def test_cuts_out_of_order_are_refused(resnet, cuts):
    with pytest.raises(HeadwayError, match="cuts at"):
        block_seconds(resnet, cuts, known_device("t4"))
