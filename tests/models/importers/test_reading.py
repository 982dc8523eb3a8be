"""Which reader takes which file."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.config import Scenario
from headway.config.tenants import MODEL_SUFFIXES
from headway.core.errors import HeadwayError
from headway.models import load_model
from headway.models.reading import TABLE_SUFFIXES, file_and_part
from headway.wiring import prepare, simulate

TABLE = "Layer, M, N, K,\nup, 128, 256, 64,\ndown, 128, 64, 256,\n"


def test_scenarios_take_the_files_that_the_readers_take():
    assert set(MODEL_SUFFIXES) == {".onnx", *TABLE_SUFFIXES}


def test_what_follows_the_hash_is_a_network_unless_the_file_has_that_name(tmp_path):
    assert file_and_part("tables.m#Net") == (Path("tables.m"), "Net")
    assert file_and_part("odd#name.onnx") == (Path("odd#name.onnx"), None)
    (tmp_path / "tables.m#Net").write_text("")
    assert file_and_part(tmp_path / "tables.m#Net") == (tmp_path / "tables.m#Net", None)


def test_a_topology_has_no_networks(tmp_path):
    (tmp_path / "net.csv").write_text(TABLE)
    with pytest.raises(HeadwayError, match="found #one; accepted: #scalesim"):
        load_model(tmp_path / "net.csv#one")


def test_a_graph_can_be_named(tmp_path):
    (tmp_path / "net.csv").write_text(TABLE)
    assert load_model(tmp_path / "net.csv").name == "net"
    assert load_model(tmp_path / "net.csv", name="mine").name == "mine"


def test_a_scenario_runs_with_a_layer_table(tmp_path):
    (tmp_path / "net.csv").write_text(TABLE)
    tenant = {
        "name": "only",
        "model": "net.csv",
        "sla": {"isolated": 4},
        "arrivals": {"process": "poisson", "rate": "50 /s"},
    }
    data = {"name": "demo", "hardware": "moca8", "requests": 20, "tenants": [tenant]}
    prepared = prepare(Scenario.from_mapping(data, base_dir=tmp_path))
    log = simulate(prepared, "edf")

    (table,) = prepared.tables.values()
    assert table.blocks == 2
    assert len(log.where("arrive")) == 20


def test_a_layer_table_is_refused_where_models_run_for_real(tmp_path):
    (tmp_path / "net.csv").write_text(TABLE)
    tenant = {
        "name": "only",
        "model": "net.csv",
        "sla": {"isolated": 4},
        "arrivals": {"process": "poisson", "rate": "50 /s"},
    }
    data = {"name": "demo", "hardware": "cpu-wide", "requests": 20, "tenants": [tenant]}
    with pytest.raises(HeadwayError, match=r"tenants\[0\]\.model: .*net\.csv: a layer table has no weights"):
        prepare(Scenario.from_mapping(data, base_dir=tmp_path))
