"""Suites: which cells a file makes, what each of them says, and each mistake with its place."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.config import Scenario, Suite, load_suite, suite_names
from headway.config.arrivals import After, Mmpp, MocaStream, Periodic, Poisson
from headway.config.model_sets import model_set_names, target_s, targets
from headway.config.priorities import DrawnPriority
from headway.core.errors import HeadwayError
from headway.models import zoo
from headway.models.importers.shipped import shipped_names

TEXT = """\
name: mine
models: [light, {name: pair, tenants: [resnet18, {model: bert_small, share: 0.5, options: {batch: 2}}]}]
hardware: [moca8, {preset: moca8, name: moca8-slow, dram: {bandwidth: 8 GB/s}}]
qos: {tight: 0.5, loose: 2.0}
base: {isolated: 4.0}
loads: [0.7, 1.1]
arrivals: [poisson, mmpp]
requests: 50
seeds: [1, 2, 3]
policies: [edf, lucas]
"""


def suite(text: str = TEXT, folder: Path | None = None, **changes: Any) -> Suite:
    data = yaml.safe_load(text) | changes
    data = {key: value for key, value in data.items() if value is not None}
    assert folder is not None
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return load_suite(file)


def test_every_combination_is_a_cell_in_a_fixed_order(tmp_path: Path) -> None:
    matrix = suite(folder=tmp_path)
    cells = matrix.cells()
    assert len(cells) == 2 * 2 * 2 * 2 * 2
    assert matrix.runs == 32 * 3 * 2
    assert len({cell.name for cell in cells}) == len(cells)
    assert [cell.name for cell in cells] == [cell.name for cell in suite(folder=tmp_path).cells()]
    assert cells[0].name == "light_moca8_tight_load0.7_poisson"
    assert cells[0].coordinates == {
        "models": "light",
        "hardware": "moca8",
        "qos": "tight",
        "load": 0.7,
        "arrivals": "poisson",
        "priorities": "none",
    }
    assert cells[-1].name == "pair_moca8-slow_loose_load1.1_mmpp"
    assert matrix.cell(cells[5].name) == cells[5]
    assert pickle.loads(pickle.dumps(cells[5])) == cells[5]


def test_a_cell_is_a_scenario(tmp_path: Path) -> None:
    matrix = suite(folder=tmp_path)
    scenario = matrix.scenario(matrix.cell("pair_moca8-slow_tight_load1.1_poisson"), seed=7)
    assert isinstance(scenario, Scenario)
    assert (scenario.name, scenario.seed) == ("pair_moca8-slow_tight_load1.1_poisson", 7)
    assert (scenario.offered_load, scenario.requests, scenario.policy) == (1.1, 50, "edf")
    assert scenario.warmup.share == 0.1
    assert scenario.device().dram_bandwidth_bytes_s == 8e9
    assert [(t.name, t.model, t.sla.isolated) for t in scenario.tenants] == [
        ("resnet18", "resnet18", 2.0),
        ("bert-small", "bert_small", 2.0),
    ]
    assert [t.arrivals.mean_rate for t in scenario.tenants if isinstance(t.arrivals, Poisson)] == [1.0, 0.5]
    assert scenario.tenants[1].options == {"batch": 2}
    bursts = matrix.scenario(matrix.cell("pair_moca8_loose_load0.7_mmpp"), seed=7).tenants[0].arrivals
    assert isinstance(bursts, Mmpp)
    assert (bursts.burst_ratio, bursts.on_share) == (4.0, 0.2)


def test_over_changes_places_of_each_cell(tmp_path: Path) -> None:
    matrix = suite(
        folder=tmp_path,
        models=["light"],
        hardware=["stream-hetero4"],
        qos=None,
        arrivals=None,
        loads=[1.0],
        over={"hardware.cores.*.sram": ["1 MiB", "2 MiB"], "tenants.*.expires": [None, "deadline"]},
    )
    cells = matrix.cells()
    assert [cell.name for cell in cells] == [
        "sram1MiB_expiresnone",
        "sram1MiB_expiresdeadline",
        "sram2MiB_expiresnone",
        "sram2MiB_expiresdeadline",
    ]
    assert cells[1].coordinates["hardware.cores.*.sram"] == "1 MiB"
    scenario = matrix.scenario(cells[1], 1)
    assert {core.sram_bytes for core in scenario.device().cores} == {2**20}
    assert {tenant.expires for tenant in scenario.tenants} == {"deadline"}
    assert {tenant.expires for tenant in matrix.scenario(cells[2], 1).tenants} == {None}


def test_published_deadlines(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"models": ["moca-light"], "arrivals": ["moca-streams"], "priorities": ["moca"]}
    matrix = suite(folder=tmp_path, base={"table": "moca"}, qos={"high": 0.8}, loads=None, **changes)
    (cell,) = [cell for cell in matrix.cells() if cell.coordinates["hardware"] == "moca8"]
    scenario = matrix.scenario(cell, 1)
    assert [tenant.sla.deadline for tenant in scenario.tenants] == pytest.approx([8e-3, 26.64e-3, 8e-3])
    assert [t.arrivals.share for t in scenario.tenants if isinstance(t.arrivals, MocaStream)] == [30, 21, 25]
    assert all(isinstance(t.priority, DrawnPriority) for t in scenario.tenants)
    with pytest.raises(
        HeadwayError, match="set 'fusion': table moca has no deadline for fsrcnn; it has resnet50"
    ):
        suite(folder=tmp_path, base={"table": "moca"}, **changes | {"models": ["fusion"]})


def test_streams_may_be_set(tmp_path: Path) -> None:
    matrix = suite(
        folder=tmp_path,
        loads=None,
        arrivals=[{"name": "dense", "process": "moca-streams", "cap": 0.5, "count": 8}],
    )
    cell = matrix.cells()[0]
    assert cell.coordinates["arrivals"] == "dense"
    streams = matrix.scenario(cell, 1).streams
    assert streams is not None
    assert (streams.cap, streams.count) == (0.5, 8)


def test_own_terms_are_kept_and_scaled(tmp_path: Path) -> None:
    own = {"process": "periodic", "rate": "10 fps"}
    tenants: list[Any] = [
        {"model": "resnet18", "name": "cam", "sla": {"deadline": "10 ms", "percentile": 95}, "arrivals": own},
        {"model": "resnet18", "sla": {"isolated": 3}, "arrivals": {"process": "after", "parent": "cam"}},
    ]
    changes: dict[str, Any] = {"models": [{"name": "own", "tenants": tenants}], "loads": None}
    matrix = suite(folder=tmp_path, arrivals=["own"], **changes)
    scenario = matrix.scenario(matrix.cells()[0], 1)
    first, second = scenario.tenants
    assert (first.name, second.name) == ("cam", "resnet18")
    assert (first.sla.deadline, first.sla.percentile, second.sla.isolated) == (5e-3, 95, 1.5)
    assert isinstance(first.arrivals, Periodic)
    assert isinstance(second.arrivals, After)
    with pytest.raises(
        HeadwayError, match="resnet18 has arrivals of its own; accepted for this set: arrivals own"
    ):
        suite(folder=tmp_path, arrivals=["poisson"], **changes | {"loads": [1.0]})
    with pytest.raises(HeadwayError, match="set 'light': squeezenet has no arrivals"):
        suite(folder=tmp_path, arrivals=["own"], models=["light"])


def test_paths_are_relative_to_the_suite(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"")
    matrix = suite(folder=tmp_path, models=[{"name": "own", "tenants": ["net.onnx"]}])
    scenario = matrix.scenario(matrix.cells()[0], 1)
    assert scenario.model_path(scenario.tenants[0]) == tmp_path / "net.onnx"
    elsewhere = scenario.to_mapping(tmp_path / "cells")
    assert elsewhere["tenants"][0]["model"].endswith("net.onnx")


def test_same_models_get_names_of_their_own_and_long_names_are_cut(tmp_path: Path) -> None:
    tenants = ["resnet18", {"model": "resnet18", "options": {"image_size": 64}}, "xrbench/ES_RITNet"]
    name = "a" * 60
    matrix = suite(folder=tmp_path, models=[{"name": name, "tenants": tenants}])
    cells = matrix.cells()
    assert [t.name for t in matrix.scenario(cells[0], 1).tenants] == ["resnet18", "resnet18-2", "ES-RITNet"]
    assert all(len(cell.name) <= 64 for cell in cells)
    assert len({cell.name for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[light,", "[ligth,", ":2: models[0]: no set of models named 'ligth' (did you mean 'light'?)"),
        (
            "arrivals: [poisson, mmpp]",
            "arrivals: [poison]",
            ":7: arrivals[0]: found 'poison' (did you mean 'poiss",
        ),
        (
            "[poisson, mmpp]",
            "[{process: poisson, rate: 3 /s}]",
            ":7: arrivals[0]: rate is not accepted: rates foll",
        ),
        ("loads: [0.7, 1.1]\n", "", ":1: loads: missing, but required: other arrivals than own have shares"),
        ("loads: [0.7, 1.1]", "loads: [0.7, -1]", ":6: loads[1]: found -1; accepted: greater than 0"),
        ("loads: [0.7, 1.1]", "loads: []", ":6: loads: found nothing; accepted: at least one value"),
        ("seeds: [1, 2, 3]", "seeds: [1, 2, 1]", ":9: seeds: '1' is there twice"),
        ("hardware: [moca8, ", "hardware: [moca8, moca8, ", ":3: hardware: 'moca8' is there twice"),
        ("policies: [edf, lucas]", "policies: [a b]", ":10: policies[0]: found 'a b'"),
        ("base: {isolated: 4.0}", "base: {}", ":5: base: found neither; accepted: exactly one of isolated"),
        ("qos: {tight: 0.5", "qos: {tight: fast", ":4: qos.tight: found 'fast'"),
        ("seeds:", "seed:", ":9: seed: unknown key (did you mean 'seeds'?)"),
        ("share: 0.5", "share: none", ":2: models[1]: set 'pair': bert_small: share: found 'none'"),
        ("{model: bert_small", "{modle: bert_small", ":2: models[1]: set 'pair': found {'modle'"),
        ("batch: 2}", "batch: 2}, colour: red", ": tenants[1].colour: unknown key"),
        (
            "seeds:",
            "over: {hardware: [moca8]}\nseeds:",
            ":9: over.hardware: found 'hardware'; accepted: pl",
        ),
        (
            "seeds:",
            "over: {loads: [1, 2, 3]}\nseeds:",
            ":9: over.loads: found 'loads'; accepted: places ",
        ),
        ("seeds:", "over: {'': [1]}\nseeds:", "found ''; accepted: text with at least 1 character"),
        ("seeds:", "over: {seed: [1, 2]}\nseeds:", "as seeds is for this one"),
        ("seeds:", "over: {load: [1, 2]}\nseeds:", "as loads is for this one"),
        ("seeds:", "over: {policy: [edf]}\nseeds:", "as policies is for this one"),
        (
            "seeds:",
            "over: {hardware.dram.bw: [1 GB/s]}\nseeds:",
            ":9: over: {file}: cell light_moca8_tight_load0.7_po",
        ),
        (
            "seeds:",
            "over: {hardware.cores.5.sram: [1 MiB]}\nseeds:",
            ":9: over: change of 'hardware.cores.5.sram': no",
        ),
        ("hardware: [moca8,", "hardware: [moca9,", ": hardware: no hardware preset named 'moca9'"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    file = tmp_path / "suite.yaml"
    file.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(HeadwayError) as error:
        load_suite(file)
    assert str(error.value).startswith(str(file))
    assert message.replace("{file}", str(file)) in str(error.value)


def test_names_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"no suite named 'smal' \(did you mean 'small'\?\)"):
        load_suite("smal")
    with pytest.raises(HeadwayError, match=r"no cell named 'light_moca'.*accepted: light_moca8_tight"):
        suite(folder=tmp_path).cell("light_moca")
    with pytest.raises(HeadwayError, match=r"nowhere\.yaml: No such file"):
        load_suite(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize("name", suite_names())
def test_shipped_suites(name: str) -> None:
    matrix = load_suite(name)
    assert matrix.name == name
    assert matrix.summary.endswith(".")
    cells = matrix.cells()
    json.dumps([dict(cell.coordinates) for cell in cells])
    for cell in cells:
        scenario = matrix.scenario(cell, matrix.seeds[-1])
        for tenant in scenario.tenants:
            assert tenant.model in (*zoo.names(), *shipped_names())


def test_what_the_evaluation_is_made_of() -> None:
    assert {
        "arrivals",
        "bandwidth-sweep",
        "contrast",
        "core-grid",
        "drops",
        "load-sweep",
        "noise-sweep",
        "qos-stress",
        "small",
        "sram-sweep",
        "xrbench",
    } <= set(suite_names())
    grid = load_suite("core-grid")
    assert len(grid.cells()) == 81
    assert (grid.requests, len(grid.seeds)) == (1000, 5)
    assert {"light", "heavy", "mixed", "fusion", "weight"} <= set(model_set_names())
    assert len([name for name in model_set_names() if name.startswith("xr-")]) == 7
    assert target_s("aurora", "bert_base") == pytest.approx(0.04)
    assert target_s("planaria", "kws_res8") is None
    for table in targets().values():
        assert re.search(r"20\d\d", table.source)
        assert set(table.deadlines) <= set(zoo.names())


def test_xrbench_frames_are_due_one_period_later() -> None:
    matrix = load_suite("xrbench")
    scenario = matrix.scenario(matrix.cell("xr-vr-gaming_xr-quad4k"), 1)
    assert scenario.duration == 0.7
    hand = scenario.tenants[2]
    assert isinstance(hand.arrivals, Periodic)
    # 45 frames a second: floor(1000 / 45) = 22 ms.
    assert hand.arrivals.period_s == pytest.approx(0.022)
    assert hand.sla.deadline == pytest.approx(0.022)
    assert hand.expires == "deadline"
    gaze = scenario.tenants[1].arrivals
    assert isinstance(gaze, After)
    assert (gaze.parent, gaze.probability) == ("eye-segmentation", 1.0)
