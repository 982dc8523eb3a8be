"""The oracle: Lucas with the true solo times of every request."""

from __future__ import annotations

import pytest

from headway import wiring
from headway.config import Scenario
from headway.core.block import Mode
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.cost.contention import MaxMinFair
from headway.policies import Policy, make
from headway.predict.analytic import AnalyticEstimator
from headway.predict.foresight import ForeseenTable, ForesightEstimator
from headway.record.metrics import summarise
from headway.sim.driver import Simulation
from headway.testing import Listed, Rows, ToyTable, toy_device, toy_request

MS = 1e-3


def test_times_are_those_of_the_truth_and_bytes_are_the_models():
    # Blocks of 1 ms with 4 MB (4 ms at 1 GB/s) and of 3 ms without traffic.
    table = ToyTable(toy_device(1), [(1 * MS, 4e6), (3 * MS, 0.0)])
    seen = ForeseenTable(table, (0.5, 2.0), 1e9)
    # The first may compute in half its time, but its bytes still take 4 ms; the second takes twice as long.
    assert seen.serial_s == [[pytest.approx(4 * MS)], [pytest.approx(6 * MS)]]
    assert seen.remaining_s == pytest.approx([10 * MS, 6 * MS, 0.0])
    both = seen.option(Mode.SERIAL, 0, 2, (0,))
    assert both.seconds(1e9) == pytest.approx(10 * MS)
    assert both.dram_bytes == table.option(Mode.SERIAL, 0, 2, (0,)).dram_bytes
    # Fused, 4 ms of compute and 2 MB are stretched by the mean factor.
    fused = seen.option(Mode.FUSED, 0, 2, (0,))
    assert fused.seconds(1e9) == pytest.approx(4 * MS * 1.25)
    assert sum(segment.compute_s for segment in seen.segments(fused)) == pytest.approx(5 * MS)


def test_each_request_has_a_table_of_its_own():
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1 * MS, 0.0)])}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.0) for i in range(2)]
    estimator = ForesightEstimator(device, tables, None, lambda request: (1.0 + request.id,))
    assert [estimator.table(r).remaining_s[0] for r in requests] == pytest.approx([1 * MS, 2 * MS])
    assert estimator.table(requests[0]) is estimator.table(requests[0])


def scenario(std):
    return Scenario.from_mapping(
        {
            "name": "noisy",
            "seed": 3,
            "hardware": {"preset": "stream-hetero4"},
            "noise": {"solo_std": std},
            "requests": 60,
            "tenants": [
                {
                    "name": model.replace("_", "-"),
                    "model": model,
                    "sla": {"isolated": 2.5},
                    "arrivals": {"process": "poisson", "rate": f"{rate} /s"},
                }
                for model, rate in (("kws_res8", 2000), ("squeezenet", 300))
            ],
        }
    )


def test_without_noise_there_is_nothing_to_foresee():
    prepared = wiring.prepare(scenario(0.0))
    ordinary, oracle = (wiring.simulate(prepared, name) for name in ("lucas", "lucas:oracle"))
    assert summarise(ordinary).total == summarise(oracle).total


@pytest.mark.parametrize(("name", "exact"), [("lucas:oracle", True), ("lucas", False)])
def test_what_it_believes_of_a_run_that_is_alone_comes_true(name, exact):
    device = toy_device(1)
    tables = {"m": ToyTable(device, [(1 * MS, 4e6)] * 4)}
    requests = [toy_request(i, "m", tables, arrival_s=i, deadline_s=i + 1) for i in range(3)]
    rule, rows = MaxMinFair(1e9), Rows()

    def noise(request):
        return (5.0, 0.5, 2.0, 8.0)

    chosen = ForesightEstimator if exact else AnalyticEstimator
    estimator = chosen(device, tables, rule, *([noise] if exact else []))
    engine = Engine(device, make(name), estimator, rule, rows)
    Simulation(engine, Listed(requests), device, tables, rule, noise).run()
    ends = {row.run: row.time_s for row in rows.of("finish")}
    believed = {row.run: row.expected_end_s for row in rows.of("start")}
    assert (believed == pytest.approx(ends, abs=1e-9)) is exact


def test_an_unknown_estimator_is_named(monkeypatch):
    class Seer(Policy):
        estimator = "crystal ball"

        def decide(self, view):
            return ()

    monkeypatch.setattr("headway.wiring.simulated.make", lambda name: Seer())
    with pytest.raises(HeadwayError, match=r"'crystal ball'; accepted on an accelerator: 'default'"):
        wiring.simulate(wiring.prepare(scenario(0.0)), "seer")
