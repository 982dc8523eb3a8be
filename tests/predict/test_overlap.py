"""Overlap models, their trees, and runs that are walked through together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Pressure, Segment
from headway.core.errors import HeadwayError
from headway.cost.contention import MOST_LOSS, PairOverlap, fluid_loss
from headway.policies import make
from headway.predict.classes import block_classes
from headway.predict.fluid import Blocks
from headway.predict.joint import Part, joint_ends
from headway.predict.mlp import fit_perceptron
from headway.predict.overlap import (
    PAIR_NAMES,
    PAIR_VERSION,
    ConstantOverlap,
    FluidOverlap,
    KnownOverlap,
    overlap_from,
    pair_vectors,
    shipped,
)
from headway.predict.trees import Trees, complete_trees
from headway.testing import play, toy_lane_table, toy_lanes, toy_request

SHARE = st.floats(0.0, 1.0)


def segment(seconds: float, *shares: float, model: str = "m", block: int = 0) -> Segment:
    compute, memory, occupancy, gap = (*shares, 0.0, 0.0, 0.0, 0.0)[:4]
    pressure = Pressure(model, block, 1, compute, memory, occupancy, gap, 0.5)
    return Segment(block, block + 1, 0.0, seconds, 0.0, pressure=pressure)


SEGMENTS = st.lists(
    st.builds(segment, st.floats(1e-5, 1e-1), SHARE, SHARE, SHARE, SHARE), min_size=1, max_size=5
)


def trained(seed: int = 0):
    """A LightGBM model on random pairs, and the pairs' vectors."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(seed)
    rows = rng.random((400, len(PAIR_NAMES)))
    model = lightgbm.LGBMRegressor(n_estimators=12, max_depth=4, num_leaves=11, n_jobs=1, verbose=-1)
    model.fit(rows, rows[:, 0] + rows[:, 3] * rows[:, 5])
    return model, rows


def test_trees_give_what_the_library_gives():
    model, rows = trained()
    trees = complete_trees([model.booster_.dump_model()["tree_info"]] * 2)
    heads = trees.predict(rows)
    assert heads.shape == (2, len(rows))
    assert heads[0] == pytest.approx(model.predict(rows), abs=1e-9)
    assert heads[1] == pytest.approx(heads[0])
    assert Trees.from_arrays(trees.to_arrays()).predict(rows[:8]) == pytest.approx(heads[:, :8], abs=0.05)


def test_a_tree_by_hand():
    leaf = {"leaf_value": 3.0}
    split = {
        "decision_type": "<=",
        "split_feature": 1,
        "threshold": 0.5,
        "left_child": {"leaf_value": 1.0},
        "right_child": {"leaf_value": 2.0},
    }
    trees = complete_trees([[{"tree_structure": split}], [{"tree_structure": leaf}]])
    assert trees.predict(np.array([[9.0, 0.5], [9.0, 0.6]])).tolist() == [[1.0, 2.0], [3.0, 3.0]]
    with pytest.raises(ValueError, match="=="):
        complete_trees([[{"tree_structure": {**split, "decision_type": "=="}}]])


def test_damaged_or_foreign_trees_are_refused():
    arrays = {
        **complete_trees([[{"tree_structure": {"leaf_value": 0.0}}]]).to_arrays(),
        "adds": np.array(True),
    }
    with pytest.raises(HeadwayError, match=f"mine: pair vectors of version 99; accepted: {PAIR_VERSION}"):
        overlap_from({**arrays, "version": np.array(99)}, "mine")
    with pytest.raises(HeadwayError, match="mine: no trees"):
        overlap_from({**arrays, "version": np.array(PAIR_VERSION), "leaves": np.zeros((3, 3))}, "mine")
    with pytest.raises(HeadwayError, match="mine: no trees"):
        overlap_from({"version": np.array(PAIR_VERSION)}, "mine")


@pytest.mark.parametrize(
    "model",
    [FluidOverlap(), ConstantOverlap(0.3), shipped(), shipped(with_fluid=False), KnownOverlap(fluid_loss)],
    ids=lambda model: model.name,
)
@settings(deadline=None, max_examples=25)
@given(first=SEGMENTS, second=SEGMENTS)
def test_heads_never_cross_losses_are_bounded_and_order_does_not_matter(model, first, second):
    losses = model.losses(first, second)
    assert losses.shape == (3, len(first), len(second))
    assert np.all(losses >= 0.0)
    assert np.all(losses <= MOST_LOSS + 1e-9)
    assert np.all(np.diff(losses, axis=0) >= 0.0)
    assert model.losses(second, first) == pytest.approx(losses.transpose(0, 2, 1), abs=1e-6)
    assert model.losses(first[:1], second) == pytest.approx(losses[:, :1], abs=1e-9)


def test_a_constant_above_all_belief_stays():
    assert ConstantOverlap(3.0).losses([segment(1.0)], [segment(1.0)])[0, 0, 0] == 3.0


@settings(deadline=None, max_examples=50)
@given(SEGMENTS, SEGMENTS)
def test_pair_vectors_are_symmetric(first, second):
    size = min(len(first), len(second))
    one, other = Blocks.of(first[:size]), Blocks.of(second[:size])
    vectors = pair_vectors(one, other)
    assert vectors.shape == (size, len(PAIR_NAMES))
    assert vectors == pytest.approx(pair_vectors(other, one), abs=1e-12)


def test_classes_do_not_change_with_company():
    parts = [
        segment(1e-3, compute, memory, 0.5, gap)
        for compute in (0.0, 0.25, 0.5)
        for memory in (0.0, 0.5, 1.0)
        for gap in (0.0, 0.5)
    ]
    together = block_classes(Blocks.of(parts))
    assert together == [block_classes(Blocks.of([part]))[0] for part in parts]
    assert len(set(together)) > 1


def whole(*seconds: float, fixed: float = 0.0) -> Part:
    return Part(fixed, 0, seconds[0], len(seconds), seconds)


def test_joint_ends_by_hand():
    # Together at w = .5: the shorter's 2 take 3, in which the longer does 2 of 3; one more alone.
    assert joint_ends([whole(3.0), whole(2.0)], [[None, [[0.5]]], [None, None]]) == pytest.approx([4.0, 3.0])
    # The second block of the one does not meet the same: 1 at w = 1 takes 2, then the other's 1 at w = 0.
    losses = [[1.0], [0.0]]
    assert joint_ends([whole(1.0, 1.0), whole(2.0)], [[None, losses], [None, None]]) == pytest.approx(
        [3.0, 3.0]
    )
    # What is fixed passes as it is, and slows the other all the same.
    assert joint_ends([whole(1.0, fixed=2.0), whole(1.0)], [[None, [[1.0]]], [None] * 2]) == pytest.approx(
        [3.0, 2.0]
    )


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.floats(0.1, 5.0), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(0, 1000),
)
def test_joint_ends_are_those_of_the_simulator(models, seed):
    lanes = len(models)
    device = toy_lanes(lanes)
    rng = np.random.default_rng(seed)
    names = [f"m{at}" for at in range(lanes)]
    tables = {
        name: toy_lane_table(device, {1: [ms * 1e-3 for ms in blocks]}, name=name, dispatch_s=2e-4)
        for name, blocks in zip(names, models, strict=True)
    }
    losses = {
        (one, other): rng.random((tables[names[one]].blocks, tables[names[other]].blocks)).tolist()
        for one in range(lanes)
        for other in range(one + 1, lanes)
    }

    def loss(first, second):
        one, other = sorted((first.pressure, second.pressure))
        return losses[names.index(one.model), names.index(other.model)][one.block][other.block]

    requests = [toy_request(at, name, tables, arrival_s=0.0, deadline_s=1.0) for at, name in enumerate(names)]
    log = play(make("fcfs"), device, tables, requests, contention=PairOverlap(loss))
    happened = [row.time_s for row in sorted(log.of("reply"), key=lambda row: row.request)]
    parts = [
        Part(
            2e-4,
            0,
            tables[name].blocks_on(1)[0].compute_s,
            tables[name].blocks,
            [s.compute_s for s in tables[name].blocks_on(1)],
        )
        for name in names
    ]
    rows = [[losses.get((one, other)) for other in range(lanes)] for one in range(lanes)]
    assert joint_ends(parts, rows) == pytest.approx(happened)


def test_a_perceptron_learns_a_plane_and_is_the_same_again():
    rng = np.random.default_rng(3)
    rows = rng.random((600, 3))
    target = 2.0 * rows[:, 0] - rows[:, 1] + 5.0
    fitted = [fit_perceptron(rows, target, epochs=40, rng=np.random.default_rng(1)) for _ in range(2)]
    assert np.abs(fitted[0].predict(rows) - target).mean() < 0.1
    assert np.array_equal(fitted[0].predict(rows), fitted[1].predict(rows))
