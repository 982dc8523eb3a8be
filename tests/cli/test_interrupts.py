"""Ctrl-C ends the program with 130 and says nothing, wherever it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_LIBRARY = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
try:
    time.sleep(0.1)
except KeyboardInterrupt:
    raise ValueError("what a library makes of it")
print("imported")
"""
_BEGIN = """
import os, signal, sys, tempfile, time
from headway.cli.interrupts import ending_quietly
interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)
with ending_quietly():
    kept = tempfile.TemporaryDirectory()
    print(kept.name)
"""


def run(body: str, folder: Path) -> tuple[str, list[str]]:
    """What the program wrote after its temporary folder's name, once it has ended by an interrupt."""
    (folder / "library.py").write_text(_LIBRARY)
    code = _BEGIN + "\n".join(f"    {line}" for line in body.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=folder, check=False
    )
    assert done.returncode == 130, done.stderr
    kept, *said = done.stdout.splitlines()
    return kept, [*said, *done.stderr.splitlines()]


def test_an_interrupt_ends_it_and_folders_are_removed(tmp_path: Path) -> None:
    kept, said = run("interrupt()\ntime.sleep(60)\nprint('went on')", tmp_path)
    assert said == []
    assert not Path(kept).exists()


def test_one_that_comes_while_a_library_is_imported_waits_for_it(tmp_path: Path) -> None:
    kept, said = run("import library\ntime.sleep(60)\nprint('went on')", tmp_path)
    assert said == ["imported"]
    assert not Path(kept).exists()


@pytest.mark.parametrize("first", ["interrupt()", "import library"])
def test_a_second_one_ends_it_at_once(first: str, tmp_path: Path) -> None:
    lines = ["try:", f"    {first}", "    time.sleep(60)", "except KeyboardInterrupt:", "    interrupt()"]
    _, said = run("\n".join([*lines, "    time.sleep(60)", "print('went on')"]), tmp_path)
    assert said == (["imported"] if "import" in first else [])


def test_one_at_the_very_end_is_heeded_too(tmp_path: Path) -> None:
    body = (
        "import atexit, threading\natexit.register(lambda: (interrupt(), time.sleep(60), print('went on')))"
    )
    _, said = run(body, tmp_path)
    assert said == []
