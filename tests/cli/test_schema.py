"""`headway schema` prints JSON Schemas."""

from __future__ import annotations

import json

import pytest
import typer

from headway.cli import app as cli
from headway.cli import schema
from headway.config.schema import json_schema


@pytest.fixture(autouse=True)
def _only_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    application = typer.Typer(pretty_exceptions_enable=False)
    application.callback()(lambda: None)
    schema.register(application)
    monkeypatch.setattr(cli, "app", application)


@pytest.mark.parametrize("kind", ["hardware", "scenario", "suite"])
def test_prints_the_schema(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["schema", kind])
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out) == json_schema(kind)  # type: ignore[arg-type]


def test_another_kind_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["schema", "model"])
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hardware" in captured.err
    assert "scenario" in captured.err
