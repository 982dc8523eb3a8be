"""Batches from a scenario's file to its log, on a simulated GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.config import Scenario
from headway.core.errors import HeadwayError
from headway.record.columns import batches_of
from headway.record.conservation import check_conservation
from headway.record.metrics import summarise
from headway.wiring import prepare, simulate

GPU = """
name: batches
hardware: gpu-streams
duration: 0.2 s
load: 1.3
seed: 3
tenants:
- name: camera
  model: mobilenet_v2
  sla: {isolated: 6}
  %s
  arrivals: {process: poisson, rate: 100 /s}
"""


def scenario(folder: Path, batching: str, text: str = GPU) -> Scenario:
    path = folder / "scenario.yaml"
    path.write_text(text % batching)
    return Scenario.load(path)


@pytest.mark.slow
def test_batches_hold_an_sla_that_one_by_one_cannot(tmp_path: Path) -> None:
    batched = prepare(scenario(tmp_path, "batching: {max_size: 4}"))
    table = next(iter(batched.tables.values()))
    assert table.most_batch == 4
    times = [table.of_batch(size).remaining_s[0] for size in (1, 2, 3, 4)]
    assert times == sorted(times)
    assert times[2] == pytest.approx((times[1] + times[3]) / 2)
    assert times[3] < 4 * times[0]
    log = simulate(batched, "headway")
    assert max(len(members) for members in batches_of(log).values()) == 4
    assert check_conservation(log) == []
    alone = simulate(prepare(scenario(tmp_path, "priority: 0")), "headway")
    assert not batches_of(alone)
    assert summarise(log).total.sla_satisfaction > summarise(alone).total.sla_satisfaction + 0.1


def test_an_accelerator_refuses_batching(tmp_path: Path) -> None:
    text = GPU.replace("gpu-streams", "edge-tpu")
    with pytest.raises(HeadwayError, match=r"scenario.yaml:11: tenants\[0\].batching: an accelerator"):
        scenario(tmp_path, "batching: {max_size: 4}", text)


@pytest.mark.parametrize("value", ["{max_size: 1}", "{max_size: 65}", "{delay: 1 ms}"])
def test_a_batch_has_at_least_two_and_not_too_many(tmp_path: Path, value: str) -> None:
    with pytest.raises(HeadwayError, match="max_size"):
        scenario(tmp_path, f"batching: {value}")


def test_a_layer_table_has_no_batch(tmp_path: Path) -> None:
    text = GPU.replace("mobilenet_v2", "net.csv")
    (tmp_path / "net.csv").write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
        "conv1, 8, 8, 3, 3, 4, 8, 1,\n"
    )
    with pytest.raises(HeadwayError, match="a layer table has no batch"):
        prepare(scenario(tmp_path, "batching: {max_size: 2}", text))
