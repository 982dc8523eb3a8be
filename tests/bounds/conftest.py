"""The policy that does anything it may, from the tests of the simulator."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def any_policy() -> ModuleType:
    """tests/sim/test_any_policy.py: random scenes, a random policy, and a simulation of it."""
    place = Path(__file__).parents[1] / "sim" / "test_any_policy.py"
    spec = importlib.util.spec_from_file_location("any_policy", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
