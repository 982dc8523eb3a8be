"""The process that takes models in: how it is ranked beside the lanes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models

from headway.predict.features import PROBES
from headway.serve.intake import IntakeProcess
from headway.serve.repository import ModelSource

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs Linux's scheduling classes")


@pytest.fixture
def intake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[IntakeProcess]:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    made = IntakeProcess({1: (min(os.sched_getaffinity(0)),)})
    yield made
    made.close()


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    folder = tiny_models.put(tmp_path, "lookup", 1, tiny_models.lookup())
    return ModelSource("lookup", "1", folder / "1" / "model.onnx")


def rank(process_id: int | None) -> tuple[int, int]:
    assert process_id is not None
    return os.sched_getscheduler(process_id), os.getpriority(os.PRIO_PROCESS, process_id)


def test_a_server_that_serves_has_models_taken_in_by_what_runs_only_on_idle_processors(
    intake: IntakeProcess, source: ModelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.serve.intake.STEPS", ((19, 0.0), (1, 60.0)))
    intake.take_in(source, "a")
    assert rank(intake.process_id) == (os.SCHED_OTHER, 19)
    first = intake.process_id
    intake.serving = True
    intake.take_in(source, "b")
    assert intake.process_id == first
    assert rank(first) == (os.SCHED_IDLE, 19)
    assert first is not None
    assert os.getsid(first) != os.getsid(0), "Ctrl-C must not reach it"
    group = Path(f"/proc/{first}/autogroup")  # whose priority counts between sessions
    if group.exists():
        assert group.read_text().split()[-1] == "1"


def test_what_nobody_leaves_time_for_gets_more_and_is_then_begun_again(
    intake: IntakeProcess, source: ModelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.serve.intake.STEPS", ((19, 0.0), (0, 0.0)))
    intake.serving = True
    assert intake.take_in(source, "a").split.outputs == ("y",)
    assert rank(intake.process_id) == (os.SCHED_OTHER, 19)


def test_models_of_a_server_are_probed_where_there_is_another_lane(
    source: ModelSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    processors = sorted(os.sched_getaffinity(0))
    intake = IntakeProcess({1: processors[:1]}, processors[-1:])
    try:
        blocks = intake.take_in(source, "a").profile.blocks
    finally:
        intake.close()
    assert blocks
    assert all(set(block.slowdowns) == set(PROBES) for block in blocks)
