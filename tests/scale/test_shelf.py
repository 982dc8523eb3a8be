"""Models are priced once for all scenarios in which they run on the same device."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from headway import wiring
from headway.config import Scenario
from headway.models.zoo import build


def scenario(model: str, folder: Path = Path(), **changes: Any) -> Scenario:
    data = {
        "name": "one",
        "hardware": "stream-hetero4",
        "requests": 5,
        "tenants": [
            {
                "name": "a",
                "model": model,
                "sla": {"isolated": 4},
                "arrivals": {"process": "poisson", "rate": "100 /s"},
            }
        ],
    }
    return Scenario.from_mapping(data, folder).with_overrides(changes)


def table(prepared: wiring.Prepared) -> Any:
    (only,) = prepared.tables.values()
    return only


def test_the_same_model_on_the_same_device_is_priced_once() -> None:
    shelf = wiring.Shelf()
    first = wiring.prepare(scenario("kws_res8"), shelf=shelf)
    again = wiring.prepare(scenario("kws_res8", seed=3), shelf=shelf)
    slower = wiring.prepare(scenario("kws_res8", **{"hardware.dram.bandwidth": "4 GB/s"}), shelf=shelf)
    assert table(again) is table(first)
    assert table(slower) is not table(first)
    assert table(slower).remaining_s[0] > table(first).remaining_s[0]


def test_a_file_that_changes_is_priced_anew(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(build("kws_res8", batch=1, weights=False).SerializeToString())
    shelf = wiring.Shelf()
    first = wiring.prepare(scenario("m.onnx", tmp_path), shelf=shelf)
    assert table(wiring.prepare(scenario("m.onnx", tmp_path), shelf=shelf)) is table(first)
    file.write_bytes(build("yolo_lite", batch=1, weights=False).SerializeToString())
    os.utime(file, ns=(1, 1))
    changed = wiring.prepare(scenario("m.onnx", tmp_path), shelf=shelf)
    assert table(changed).remaining_s[0] > 2 * table(first).remaining_s[0]


def test_what_was_not_used_for_longest_makes_room() -> None:
    shelf = wiring.Shelf(most=1)
    first = wiring.prepare(scenario("kws_res8"), shelf=shelf)
    wiring.prepare(scenario("kws_res8", **{"hardware.dram.bandwidth": "4 GB/s"}), shelf=shelf)
    assert table(wiring.prepare(scenario("kws_res8"), shelf=shelf)) is not table(first)
