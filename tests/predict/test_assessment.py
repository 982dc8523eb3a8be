"""Predictors on pairs whose losses follow a known rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.core.errors import HeadwayError
from headway.predict.assessment import CALIBRATED, assess
from headway.predict.conformal import Bound, bound_factor
from headway.predict.features import DeviceLimits
from headway.predict.pairs import Member, Pairs, read_pairs
from headway.predict.rivals import OURS, RIVALS
from headway.predict.splits import shipped_splits

FAMILIES = ("convolutional", "transformer", "dense", "mapping")
QUICK = {name: RIVALS[name] for name in ("serial sum", "fluid base", "linear", OURS)}
LIMITS = DeviceLimits(1e11, 2e10, 2, 1e-5, 3.2e7)


def member(rng: np.random.Generator) -> Member:
    at = int(rng.integers(16))
    compute, memory = rng.uniform(0.1, 0.9, 2).tolist()
    seconds = float(rng.uniform(2e-3, 8e-3))
    row = (seconds, compute, memory, 0.5, 0.1, 0.2, 1.0, 1.0, 1.0)
    counts = tuple(float(each) for each in rng.integers(0, 9, 7))
    return Member(f"m{at}", FAMILIES[at % 4], 1, 0, 4, row, counts, seconds)


def pairs(count: int, *, extra: float = 0.0, noise: float = 0.0, seed: int = 3) -> Pairs:
    """Pairs that lose what they ask of memory together, and `extra`."""
    rng = np.random.default_rng(seed)
    members = [(member(rng), member(rng)) for _ in range(count)]
    rounds = []
    for one, other in members:
        w = min(1.1, one.row[2] * other.row[2] + extra)
        alone = one.row[0], other.row[0]
        together = max(alone) + w * min(alone)
        rounds.append([[*alone, together * float(np.exp(noise * rng.standard_normal()))] for _ in range(3)])
    return Pairs.of(members, rounds, None)


def test_a_round_gives_the_loss_it_was_made_with() -> None:
    found = pairs(20, extra=0.2)
    expected = [min(1.1, one.row[2] * other.row[2] + 0.2) for one, other in found.members]
    np.testing.assert_allclose(found.losses, expected, atol=1e-12)
    np.testing.assert_allclose(found.seconds(found.losses), found.together)
    assert not found.noise().any()
    assert len(found.at(np.arange(20) < 5)) == 5


def test_trivial_predictors_by_hand() -> None:
    known = pairs(60)
    alone = known.alone
    for name, expected in (
        ("serial sum", alone.sum(axis=1)),
        ("longest alone", alone.max(axis=1)),
        ("fluid base", alone.max(axis=1) + known.fluid * alone.min(axis=1)),
    ):
        np.testing.assert_allclose(RIVALS[name](known, 0)(known).seconds, expected)
    order = np.argsort(known.losses)
    half = np.cumsum(known.weights[order]) >= known.weights.sum() / 2
    w = known.losses[order][half][0]
    constant = RIVALS["constant w"](known, 0)(known).seconds
    np.testing.assert_allclose(constant, alone.max(axis=1) + w * alone.min(axis=1))


def test_the_order_of_a_pair_does_not_matter() -> None:
    known, asked = pairs(120), pairs(30, seed=9)
    turned = Pairs(
        tuple((other, one) for one, other in asked.members),
        asked.fluid,
        asked.alone[:, ::-1],
        asked.together,
        asked.rounds,
    )
    for name in ("linear", "SKADI's operator counts", "Abacus's one-hot", OURS):
        predict = RIVALS[name](known, 1)
        np.testing.assert_allclose(predict(asked).seconds, predict(turned).seconds, rtol=1e-9)


def test_what_is_taught_is_learnt_and_noise_is_told() -> None:
    quiet = assess("quiet", pairs(400), shipped_splits(), 0, rivals=QUICK)
    by = {(score.split, score.predictor): score for score in quiet.scores}
    for split in ("random", "model", "family"):
        assert by[split, OURS].mape < by[split, "fluid base"].mape
        assert by[split, OURS].mape < by[split, "serial sum"].mape
        assert by[split, "noise floor"].mape == 0.0
        assert by[split, "serial sum"].under == 0.0
        assert by[split, OURS].covered is not None
        assert by[split, "linear"].covered is None
    assert ("batch", OURS) not in by  # no batch is among those left out
    noisy = assess("noisy", pairs(400, noise=0.05), shipped_splits(), 0, rivals=QUICK)
    by = {(score.split, score.predictor): score for score in noisy.scores}
    assert 0.02 < by["random", "noise floor"].mape < 0.08
    for split in ("random", "family"):  # though times stray, also beyond what any loss allows
        for name in (OURS, CALIBRATED):
            assert 0.975 <= by[split, name].covered <= 1.0


def test_a_bound_is_stretched_until_it_holds_on_families_left_out() -> None:
    known = pairs(400, noise=0.05)
    factor = bound_factor(known, lambda rest: lambda asked: asked.alone.sum(axis=1) * 0.5, 0)
    ratios = known.together / (0.5 * known.alone.sum(axis=1))
    assert 0.985 <= (ratios <= factor).mean() < 1.0
    assert bound_factor(known, lambda rest: lambda asked: asked.alone.sum(axis=1) * 9, 0) == 1.0
    families = {name: sum(name in (m.family for m in pair) for pair in known.members) for name in FAMILIES}
    seen: list[int] = []

    def teach(rest: Pairs) -> Bound:
        seen.append(len(rest))
        assert len({member.family for pair in rest.members for member in pair}) == 3
        return lambda asked: asked.together

    assert bound_factor(known, teach, 0) == 1.0
    assert sorted(seen) == sorted(400 - count for count in families.values())


def test_overlaps_of_its_own_bring_a_new_model_to_the_truth() -> None:
    """Taught without the extra loss, asked about with it: only what is seen online tells of that."""
    known, new = pairs(300), pairs(300, extra=0.5, seed=8)
    members = known.members + tuple(
        (one._replace(family="recurrent", model="new"), other) for one, other in new.members
    )
    arrays = {
        name: np.concatenate([getattr(known, name), getattr(new, name)])
        for name in ("fluid", "alone", "together", "rounds")
    }
    told = assess("changed", Pairs(members, **arrays), shipped_splits(), 0, rivals=QUICK)
    by = {(row.split, row.predictor): row for row in told.by_fold}
    assert by["family: recurrent", CALIBRATED].mape < 0.6 * by["family: recurrent", OURS].mape


def test_the_same_sample_and_seed_give_the_same_figures() -> None:
    one, again = (
        assess("pairs", pairs(120, noise=0.02), shipped_splits(), 4, rivals=QUICK) for _ in range(2)
    )
    assert one.scores == again.scores
    assert one.by_fold == again.by_fold
    assert one.curve == again.curve


def line(**changes: Any) -> dict[str, Any]:
    each = {
        "number": 1,
        "family": "dense",
        "times": 2,
        "flops": 1e7,
        "moved_bytes": 1e6,
        "kernels": 4,
        "footprint_bytes": 1e6,
        "output_elements": 4096.0,
        "slowdowns": {"compute": 1.1, "memory": 1.2, "cache": 1.3},
        "counts": [1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0],
    }
    rounds = [[0.010, 0.008, 0.014], [0.011, 0.008, 0.014], [0.010, 0.009, 0.015]]
    return {"pair": [each, {**each, "number": 2, **changes}], "rounds": rounds}


def test_measured_pairs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    uneven = line() | {"rounds": [[0.010, 0.0005, 0.0102]] * 3}
    path.write_text(
        "\n".join([json.dumps({"machine": "any"}), json.dumps(line()), json.dumps(uneven), '{"cut'])
    )
    found = read_pairs(path, LIMITS)
    assert len(found) == 1
    (one, other) = found.members[0]
    assert (one.model, other.model, one.family) == ("synthetic 1", "synthetic 2", "dense")
    assert one.counts[4] == 4.0  # two runs
    assert one.row[0] == pytest.approx(0.005)  # of one run
    assert found.together[0] == pytest.approx(0.014)
    assert found.losses[0] == pytest.approx((0.014 - 0.010) / 0.008)


def test_a_file_that_holds_no_pairs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    with pytest.raises(HeadwayError, match="cannot be read"):
        read_pairs(path, LIMITS)
    path.write_text("{}\n")
    with pytest.raises(HeadwayError, match="no pair that is even enough"):
        read_pairs(path, LIMITS)
    path.write_text("{}\n{}\n")
    with pytest.raises(HeadwayError, match="line 2: no measured pair"):
        read_pairs(path, LIMITS)
