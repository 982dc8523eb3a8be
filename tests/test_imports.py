"""Starting up stays light: heavy libraries are loaded by the functions that need them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("sklearn", "lightgbm", "scipy.stats", "pandas", "ortools", "onnxruntime", "plotly", "ray")

SHOW_HELP = """
from headway.cli.app import main
try:
    main(["--help"])
except SystemExit as stop:
    assert stop.code == 0, stop.code
"""


def loaded_by(program: str) -> list[str]:
    """Names of the heavy modules in a fresh interpreter after it has run a program."""
    report = f"\nimport sys\nprint('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])\n"
    result = subprocess.run(
        [sys.executable, "-c", program + report], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    last_line = result.stdout.splitlines()[-1]
    assert last_line.startswith("loaded:")
    return last_line.split()[1:]


@pytest.mark.parametrize("program", ["import headway", SHOW_HELP], ids=["import", "help"])
def test_start_loads_nothing_heavy(program: str) -> None:
    assert loaded_by(program) == []


def test_a_heavy_module_is_noticed() -> None:
    assert loaded_by("import onnxruntime, plotly") == ["onnxruntime", "plotly"]


@pytest.mark.parametrize("given", [None, "0"])
def test_onnx_runtime_tells_its_maker_nothing_unless_the_user_says_so(given: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    if given is not None:
        environment["ORT_DISABLE_TELEMETRY"] = given
    program = "import headway, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert told.stdout.strip() == (given or "1")
