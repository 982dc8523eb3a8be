"""The command line's frame: exit status, and one clean message for what the user can fix."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import typer

from headway.cli import app as cli
from headway.core.errors import HeadwayError


def exit_status(arguments: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    return stop.value.code


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Put an application in place whose one command, `act`, is the given function."""

    def install(action: Callable[[], None]) -> None:
        application = typer.Typer(pretty_exceptions_enable=False)
        application.callback()(lambda: None)
        application.command("act")(action)
        monkeypatch.setattr(cli, "app", application)

    return install


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["--version"]) == 0
    assert capsys.readouterr().out == f"headway {version('headway')}\n"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["--help"]) == 0
    assert "--version" in capsys.readouterr().out


def test_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status(["--nonsense"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--nonsense" in captured.err


def test_user_error_is_one_message(command, capsys: pytest.CaptureFixture[str]) -> None:
    def act() -> None:
        raise HeadwayError("scenario.yaml: tenants[0].sla: found [bold]fast[/bold], expected a number of ms")

    command(act)
    assert exit_status(["act"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: scenario.yaml: tenants[0].sla: found [bold]fast[/bold], expected a number of ms\n"
    )


def test_unreadable_file_is_one_message(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.yaml"

    def act() -> None:
        missing.read_text()

    command(act)
    assert exit_status(["act"]) == 2
    assert capsys.readouterr().err == f"error: {missing}: No such file or directory\n"


def test_interrupt(command) -> None:
    def act() -> None:
        raise KeyboardInterrupt

    command(act)
    assert exit_status(["act"]) == 130


@pytest.mark.parametrize("defect", [ValueError("a defect"), OSError("no file is named")])
def test_defects_are_not_hidden(command, defect: Exception) -> None:
    def act() -> None:
        raise defect

    command(act)
    with pytest.raises(type(defect), match=str(defect)):
        cli.main(["act"])


def test_a_full_disk_is_one_line(
    command: Callable[[Callable[[], None]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command(full)
    assert exit_status(["act"]) == 2
    assert capsys.readouterr().err == "error: a file cannot be written to its end: No space left on device\n"
