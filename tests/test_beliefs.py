"""Estimators by name, and simulated GPUs, from a scenario to a log."""

from __future__ import annotations

from typing import Any

import pytest

from headway import wiring
from headway.config import Scenario
from headway.core.errors import HeadwayError
from headway.core.protocols import LogRow
from headway.policies import make
from headway.policies.base import Policy
from headway.predict.lane_estimator import LaneEstimator
from headway.record.log import LogTable
from headway.wiring.beliefs import belief, replay, true_loss

NAMES = (
    "default",
    "foresight",
    "no-calibration",
    "no-margin",
    "no-fluid",
    "oracle-overlap",
    "skadi",
    "abacus",
)


def scenario(count: int = 60, hardware: Any = None, **changes: Any) -> Scenario:
    tenants = [
        {
            "name": model.replace("_", "-"),
            "model": model,
            "sla": {"isolated": 5.0},
            "arrivals": {"process": "poisson", "rate": "50 /s"},
        }
        for model in ("kws_res8", "mobilenet_v2")
    ]
    described = hardware or {"preset": "gpu-streams", "block": "0.1 ms"}
    return Scenario.from_mapping(
        {"name": "s", "hardware": described, "requests": count, "load": 1.0, "tenants": tenants, **changes}
    )


@pytest.fixture(scope="module")
def prepared() -> wiring.Prepared:
    return wiring.prepare(scenario())


def policy(estimator: str) -> Policy:
    chosen = make("edf")
    chosen.estimator = estimator
    return chosen


def same(log: LogTable, other: LogTable) -> bool:
    return log.table.equals(other.table)


def test_a_simulated_gpu_needs_no_device_and_repeats_itself(prepared):
    assert prepared.device.has_lanes
    assert len(prepared.device.cores) == 2
    assert all(table.blocks > 1 for table in prepared.tables.values())
    shares = [
        share
        for table in prepared.tables.values()
        for part in table.blocks_on(1)
        for share in part.pressure[3:6]
    ]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert max(shares) > 0.0
    log, again = (wiring.simulate(wiring.prepare(scenario()), "edf") for _ in range(2))
    assert len(log.where("reply")) == 60
    assert same(log, again)
    other = wiring.simulate(wiring.prepare(scenario(seed=5)), "edf")
    assert not same(log, other)


@pytest.mark.parametrize("name", NAMES)
def test_every_named_estimator_answers(prepared, name):
    estimator, _ = belief(prepared, policy(name))
    assert isinstance(estimator, LaneEstimator)
    log = wiring.simulate(prepared, "edf")
    for row in log.table.to_pylist():
        estimator.observe(LogRow(**row))
    learnt = estimator.calibration.changes > 0
    assert learnt == (name in ("default", "no-margin", "no-fluid", "oracle-overlap"))


def test_a_log_that_is_read_again_teaches_what_the_run_taught(prepared, monkeypatch, tmp_path):
    kept = []

    def remembered(*arguments):
        kept.append(belief(*arguments))
        return kept[-1]

    monkeypatch.setattr("headway.wiring.simulated.belief", remembered)
    log = wiring.simulate(prepared, "edf")
    state = kept[0][0].calibration.state()
    assert state["bias"]
    assert replay(prepared, policy("default"), log).calibration.state() == state
    written = wiring.simulate(prepared, "edf", tmp_path)
    assert replay(prepared, policy("default"), written).calibration.state() == state
    with pytest.raises(HeadwayError, match="has no lanes"):
        replay(wiring.prepare(scenario(hardware="moca8")), policy("default"), log)


def test_the_truth_is_hidden_from_belief_but_not_from_the_oracle(prepared):
    tables = list(prepared.tables.values())
    one, other = tables[0].blocks_on(1)[0], tables[1].blocks_on(1)[0]
    losses = {}
    for name in ("no-calibration", "oracle-overlap"):
        _, rule = belief(prepared, policy(name))
        rate = rule.rates_of([one, other], [None, None])[0]
        losses[name] = 1.0 / rate - 1.0
    assert losses["oracle-overlap"] == pytest.approx(true_loss(prepared)(one, other))
    plain = wiring.prepare(scenario(hardware={"preset": "gpu-streams", "overlap_deviation": 0.0}))
    _, rule = belief(plain, policy("no-calibration"))
    parts = [table.blocks_on(1)[0] for table in plain.tables.values()]
    assert true_loss(plain)(*parts) == pytest.approx(1.0 / rule.rates_of(parts, [None, None])[0] - 1.0)


def test_unknown_estimators_are_refused_with_those_there_are(prepared):
    with pytest.raises(
        HeadwayError, match=r"estimator is 'magic'; accepted on lanes: 'default', 'foresight'"
    ):
        belief(prepared, policy("magic"))
    with pytest.raises(HeadwayError, match="'oracle-overlap'; accepted live on lanes"):
        belief(prepared, policy("oracle-overlap"), live=True)
    accelerator = wiring.prepare(scenario(hardware="moca8"))
    with pytest.raises(HeadwayError, match="'no-margin'; accepted on an accelerator: 'default', 'foresight'"):
        belief(accelerator, policy("no-margin"))


def test_a_constant_loss_on_streams(prepared):
    same_for_all = wiring.prepare(
        scenario(
            hardware={"preset": "gpu-streams", "overlap": 0.4, "overlap_deviation": 0.0, "overlap_noise": 0.0}
        )
    )
    assert same_for_all.contention().rates([0.0, 0.0]) == pytest.approx([1 / 1.4] * 2)
    assert len(wiring.simulate(same_for_all, "edf").where("reply")) == 60


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "h9000"}, r"hardware\.gpu: GPU 'h9000': not known; accepted: .*h100-sxm"),
        ({"streams": 0}, "hardware.streams"),
        ({"overlap": "measured"}, "hardware.overlap"),
        ({"overlap_deviation": -1}, "hardware.overlap_deviation"),
    ],
)
def test_mistakes_in_the_hardware_are_named(changes, said):
    with pytest.raises(HeadwayError, match=said):
        wiring.prepare(scenario(hardware={"preset": "gpu-streams", **changes}))


def test_a_simulated_gpu_cannot_run_live(prepared):
    with pytest.raises(HeadwayError, match="only be simulated"):
        wiring.live.run(prepared, "edf")
