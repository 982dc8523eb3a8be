"""What is learnt online, and that it follows from the log alone."""

from __future__ import annotations

from math import exp, log
from types import SimpleNamespace

import numpy as np
import pytest

from headway.core.block import Pressure
from headway.core.messages import Dispatch
from headway.core.protocols import LogRow
from headway.cost.contention import MOST_LOSS, PairOverlap
from headway.policies import make
from headway.predict.calibration import (
    CAREFUL,
    FORGETTING,
    KEPT_RATIOS,
    PRIOR,
    Bias,
    Calibration,
    Drift,
    Margin,
)
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.lane_models import LaneModels
from headway.predict.overlap import ConstantOverlap, FluidOverlap
from headway.predict.tiers import Tier
from headway.predict.watch import Watch
from headway.testing import play, toy_lane_table, toy_lanes, toy_request

MS = 1e-3


def test_bias_shrinks_to_its_parents_by_hand():
    bias = Bias()
    assert bias.of((1, 2), ("a", "b")) == 1.0
    bias.learn((1, 2), ("a", "b"), log(1.5))
    everything = log(1.5) / (1 + PRIOR)
    classes = (log(1.5) + PRIOR * everything) / (1 + PRIOR)
    models = (log(1.5) + PRIOR * classes) / (1 + PRIOR)
    assert bias.of((2, 1), ("b", "a")) == pytest.approx(exp(models))
    assert bias.of((1, 2), ("a", "new")) == pytest.approx(exp(PRIOR * classes / PRIOR))
    assert bias.of((5, 6), ("c", "d")) == pytest.approx(exp(everything))


def test_bias_forgets_by_hand_and_finds_what_is_there():
    bias = Bias()
    for ratio in (2.0, 1.0):
        bias.learn((0, 0), ("a", "b"), log(ratio))
    total, count = FORGETTING * log(2.0), FORGETTING + 1.0
    assert bias.of((9, 9), ("x", "y")) == pytest.approx(exp(total / (count + PRIOR)))
    for _ in range(500):
        bias.learn((0, 0), ("a", "b"), log(1.3))
    assert bias.of((0, 0), ("a", "b")) == pytest.approx(1.3, rel=0.02)


def test_a_margin_is_careful_then_the_greatest_then_the_quantile():
    margin = Margin()
    assert margin.value == CAREFUL
    margin.learn(1.1)
    assert margin.value == pytest.approx(1.05 * 1.1)
    rng = np.random.default_rng(0)
    ratios = np.exp(0.1 * rng.standard_normal(5_000))
    missed = 0
    for at, ratio in enumerate(ratios):
        missed += at >= KEPT_RATIOS and ratio > margin.value
        margin.learn(float(ratio))
    assert len(margin.state()[2]) == KEPT_RATIOS
    assert missed / (len(ratios) - KEPT_RATIOS) < 0.01
    assert 1.15 < margin.value < 1.6


def test_after_several_misses_a_margin_is_above_the_greatest():
    margin = Margin()
    for _ in range(KEPT_RATIOS):
        margin.learn(1.0)
    assert margin.value == 1.0
    for _ in range(5):
        margin.learn(1.5)
    assert margin.value == pytest.approx(1.05 * 1.5)


def test_drift_is_told_from_noise():
    rng = np.random.default_rng(0)
    drift = Drift()
    assert not any(drift.learn(float(each)) for each in 0.05 * rng.standard_normal(400))
    assert any(drift.learn(0.5 + float(each)) for each in 0.05 * rng.standard_normal(40))
    assert not any(drift.learn(0.5 + float(each)) for each in 0.05 * rng.standard_normal(400))


def calibration() -> Calibration:
    return Calibration(lambda model: [0], lambda model: 1)


def test_drift_lowers_the_tier_and_margins_belong_to_tiers():
    known = calibration()
    for _ in range(150):
        known.overlapped(("a", "b"), (0, 0), 1.0)
        known.overlapped(("b", "a"), (0, 0), 1.0)
    assert known.tiers.of("a") is Tier.C3
    assert known.margin(Tier.C3) == pytest.approx(1.05)
    assert known.margin(Tier.C1) == CAREFUL
    while not known.drifts:
        known.overlapped(("a", "b"), (0, 0), 2.0)
    assert known.tiers.of("a") is Tier.C2
    assert known.tiers.of("b") is Tier.C3


def test_ratios_that_no_overlap_makes_are_left_out():
    known = calibration()
    known.overlapped(("a", "b"), (0, 0), 1e6)
    known.overlapped(("a", "b"), (0, 0), 0.0)
    known.ran_alone("a", 0, 1, 1e6)
    assert known.state() == calibration().state()


def test_solo_times_have_a_mean_and_a_recent_maximum():
    known = calibration()
    assert (known.solo("a").mean, known.solo("a").upper) == (1.0, 1.05)
    known.ran_alone("a", 0, 1, 1.5)
    for _ in range(31):
        known.ran_alone("a", 0, 1, 1.2)
    assert known.solo("a").mean == pytest.approx(1.2, rel=0.02)
    assert known.solo("a").upper == 1.5
    known.ran_alone("a", 0, 1, 1.2)
    assert known.solo("a").upper == 1.2


def row(time_ms: float, event: str, run: int, **fields) -> LogRow:
    return LogRow(time_ms * MS, event, run, "t", f"m{run}", run, **fields)


def test_the_ratio_of_a_run_by_hand():
    """Run 0 has 4 ms of work and meets run 1 from 1 to 4. At w = .5 it should have done 3 / 1.5 = 2 of it by
    then, but of its 4 only 4 - 1 - 2 were left for that, since it was alone for 3."""
    solos, overlaps = [], []
    watch = Watch(
        lambda model, lanes: SimpleNamespace(model=model, lanes=lanes, block_s=[2 * MS, 2 * MS]),
        lambda one, other: [[0.5, 0.5], [0.5, 0.5]],
        lambda model, first: 0.0,
        lambda *told: solos.append(told),
        lambda *told: overlaps.append(told),
    )
    span = {"first_block": 0, "end_block": 2, "cores": "0"}
    for each in (
        row(0, "start", 0, **span),
        row(1, "start", 1, **{**span, "end_block": 1, "cores": "1"}),
        row(3, "progress", 0, first_block=0, end_block=1, share=1.0),
        row(4, "progress", 1, first_block=0, end_block=1, share=1.0),
        row(4, "finish", 1, **span),
        row(6, "progress", 0, first_block=1, end_block=2, share=1.0),
        row(6, "finish", 0, **span),
        row(7, "start", 2, **span),
        row(9, "progress", 2, first_block=0, end_block=1, share=1.0),
        row(9, "stop", 2, reason="drain", **span),
        row(9, "start", 3, **span),
        row(10, "progress", 3, first_block=0, end_block=1, share=0.5, outcome="lost"),
        row(10, "stop", 3, reason="kill", **span),
    ):
        watch.observe(each)
    assert [(*told[:-1], pytest.approx(told[-1])) for told in overlaps] == [
        ("m1", 1, 0, 1, ("m0", 1, 0), (3 / 1.5) / 2),
        ("m0", 1, 0, 2, ("m1", 1, 0), (3 / 1.5) / (4 - 3)),
    ]
    assert [(*told[:-1], pytest.approx(told[-1])) for told in solos] == [("m2", 1, 0, 1, 1.0)]


def world(w: float, count: int = 120, solo: float = 1.0, seed: int = 0, apart_s: float = 4 * MS):
    """A device, tables of two models, requests that keep both lanes busy, and the true rule and noise."""
    device = toy_lanes(2)
    tables = {}
    for name, times, share in (("a", [2, 3], 0.5), ("b", [4, 1, 2], 0.7)):
        pressures = [Pressure(name, at, 1, share, 0.1, 0.1, 0.0) for at in range(len(times))]
        seconds = {1: [each * MS for each in times]}
        tables[name] = toy_lane_table(
            device, seconds, name=name, pressures={1: pressures}, dispatch_s=0.1 * MS
        )
    rng = np.random.default_rng(seed)
    at_s = np.cumsum(rng.exponential(apart_s, count))
    requests = [
        toy_request(at, "ab"[at % 2], tables, arrival_s=float(at_s[at]), deadline_s=float(at_s[at]) + 0.05)
        for at in range(count)
    ]
    noise = {each.id: [solo * float(np.exp(0.02 * rng.standard_normal()))] * each.blocks for each in requests}
    return device, tables, requests, PairOverlap(lambda one, other: w), noise


def learnt(w: float, overlap=None, **options):
    device, tables, requests, rule, noise = world(w, **options)
    estimator = LaneEstimator(device, tables, overlap or ConstantOverlap(0.2))
    rows = play(make("edf"), device, tables, requests, contention=rule, noise=noise, lane_estimator=estimator)
    return estimator, rows, (device, tables, requests)


def together(estimator: LaneEstimator, tables) -> float:
    """The believed makespan of whole requests of both models that start together."""
    lanes = toy_lanes(2).cores
    one, other = (
        toy_request(at, name, tables, arrival_s=0.0, deadline_s=1.0) for at, name in enumerate("ab")
    )
    first = Dispatch((one,), range(one.blocks), (lanes[0],))
    second = Dispatch((other,), range(other.blocks), (lanes[1],))
    found = estimator.estimate([first], [second], [0.0], 0.0)[0]
    assert found.mean_s <= found.upper_s
    assert found.others_end_s[0] <= found.others_upper_s[0]
    return max(found.mean_s, found.others_end_s[0])


def test_reading_the_log_again_teaches_the_same():
    estimator, rows, (device, tables, _) = learnt(0.6)
    again = LaneEstimator(device, tables, ConstantOverlap(0.2))
    for each in rows:
        again.observe(each)
    state = estimator.calibration.state()
    assert state["bias"]
    assert again.calibration.state() == state
    assert together(again, tables) == together(estimator, tables)


@pytest.mark.parametrize(("w", "believed"), [(0.8, 0.2), (0.0, 0.4), (0.5, 0.5)])
def test_overlaps_teach_what_is_true(w, believed):
    estimator, _, (_, tables, _) = learnt(w, ConstantOverlap(believed), count=300)
    fresh = LaneEstimator(toy_lanes(2), tables, ConstantOverlap(believed))
    # Both take 5.1 and 7.1 ms alone; together max + w min of what is not fixed.
    truth = 7.1 * MS + w * 5.0 * MS
    wrong, before = (abs(together(each, tables) / truth - 1.0) for each in (estimator, fresh))
    assert wrong < 0.06
    assert wrong <= before + 0.03


def test_a_machine_that_became_slower_is_noticed():
    estimator, *_ = learnt(0.2, solo=1.4, count=300, apart_s=20 * MS)
    assert estimator.calibration.solo("a").mean == pytest.approx(1.4, rel=0.1)


def test_tiers_rise_and_bounds_come_down_with_experience():
    estimator, _, (_, tables, _) = learnt(0.4, FluidOverlap(), count=400)
    fresh = LaneEstimator(toy_lanes(2), tables, FluidOverlap())
    lanes = toy_lanes(2).cores
    one, other = (
        toy_request(at, name, tables, arrival_s=0.0, deadline_s=1.0) for at, name in enumerate("ab")
    )
    question = (
        [Dispatch((one,), range(2), (lanes[0],))],
        [Dispatch((other,), range(3), (lanes[1],))],
        [0.0],
        0.0,
    )
    before, after = fresh.estimate(*question)[0], estimator.estimate(*question)[0]
    assert (before.tier, after.tier) == (1, 3)
    assert after.upper_s / after.mean_s < before.upper_s / before.mean_s
    most = 5.1 * MS + MOST_LOSS * 5.1 * MS
    assert after.upper_s <= most * estimator.calibration.solo("a").upper + 1e-12


def test_what_is_not_profiled_gets_twice_the_time():
    device, tables, *_ = world(0.2)
    estimator = LaneEstimator(device, tables, ConstantOverlap(0.2), profiled={"a": 0})
    request = toy_request(0, "a", tables, arrival_s=0.0, deadline_s=1.0)
    found = estimator.estimate([Dispatch((request,), range(2), (device.cores[0],))], [], [0.0], 0.0)[0]
    assert found.tier == 0
    assert found.upper_s == pytest.approx(2 * found.mean_s)


def test_without_learning_or_margins():
    device, tables, requests, rule, noise = world(0.9)
    still = LaneEstimator(device, tables, ConstantOverlap(0.2), learns=False)
    play(make("edf"), device, tables, requests, contention=rule, noise=noise, lane_estimator=still)
    assert (
        still.calibration.state() == LaneEstimator(device, tables, ConstantOverlap(0.2)).calibration.state()
    )
    bold = LaneEstimator(device, tables, ConstantOverlap(0.2), margins=False)
    request = toy_request(0, "a", tables, arrival_s=0.0, deadline_s=1.0)
    found = bold.estimate([Dispatch((request,), range(2), (device.cores[0],))], [], [0.0], 0.0)[0]
    assert found.upper_s == found.mean_s


def test_a_model_that_is_loaded_anew_is_known_anew_and_one_that_is_gone_is_forgotten():
    device, tables, *_ = world(0.2)
    models = LaneModels(tables, FluidOverlap())
    one, other = models.known("a", 1), models.known("b", 1)
    before = models.losses(one, other)
    assert models.known("a", 1) is one
    assert models.losses(one, other) is before
    tables["a"] = toy_lane_table(device, {1: [9 * MS]}, name="a")
    assert models.known("a", 1).block_s == [9 * MS]
    assert models.losses(models.known("a", 1), other)[0] == [[0.0, 0.0, 0.0]]
    tables["c"] = tables.pop("b")
    models.known("c", 1)
    with pytest.raises(KeyError):
        models.known("b", 1)


def test_a_model_that_is_unloaded_while_its_partner_runs_does_no_harm():
    device, tables, *_ = world(0.2)
    estimator = LaneEstimator(device, tables, ConstantOverlap(0.2))
    rows = [
        LogRow(0.0, "start", 0, "t", "a", 0, 0, 2, "serial", "0"),
        LogRow(0.0, "start", 1, "t", "b", 1, 0, 3, "serial", "1"),
        LogRow(5 * MS, "progress", 0, "t", "a", 0, 0, 2, share=1.0),
        LogRow(5 * MS, "finish", 0, "t", "a", 0, 0, 2, "serial", "0"),
        LogRow(8 * MS, "progress", 1, "t", "b", 1, 0, 3, share=1.0),
        LogRow(8 * MS, "finish", 1, "t", "b", 1, 0, 3, "serial", "1"),
    ]
    for row in rows[:4]:
        estimator.observe(row)
    changes = estimator.calibration.changes
    assert changes == 1
    del tables["a"]
    for row in rows[4:]:
        estimator.observe(row)
    assert estimator.calibration.changes == changes
