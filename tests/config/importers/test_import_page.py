"""The examples of the page on importing are read as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from headway.config import load_hardware
from headway.config.importers.zigzag_core import read_core
from headway.config.yaml_file import Document
from headway.core.errors import HeadwayError
from headway.models import load_model

PAGE = (Path(__file__).parents[3] / "docs" / "import.md").read_text(encoding="utf-8")


def _example(title: str, fence: str = "") -> str:
    section = PAGE[PAGE.index(f"### {title}\n") :]
    found = re.search(rf"```{fence}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("title", "fence", "name", "macs"),
    [
        ("SCALE-Sim topology", "", "net.csv", 56 * 56 * 64 * 576 + 28 * 28 * 128 * 576),
        ("MAESTRO and XRBench", "", "net.m", 111 * 111 * 32 * 27),
        ("ZigZag workload", "yaml", "net.yaml", 118_013_952),
    ],
)
def test_models(tmp_path, title, fence, name, macs):
    path = tmp_path / name
    path.write_text(_example(title, fence))
    assert load_model(path).macs == macs


def test_configuration(tmp_path):
    path = tmp_path / "scale.cfg"
    path.write_text(_example("SCALE-Sim configuration", "ini"))
    assert load_hardware(path).cores[0].sram_bytes == 3 * 64 * 1024


def test_accelerator_lacks_only_the_memories_that_are_left_out():
    data = yaml.safe_load(_example("ZigZag accelerator", "yaml"))
    with pytest.raises(HeadwayError, match="none on the chip serves O"):
        read_core(Document("page", data))
