"""Clients that others wrote, each in an environment of its own, since their packages clash.

An environment is made when a test first needs it, in the folder `clients` of Headway's cache, and used again
by later runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.live.cache import cache_folder

_INSTALL_S = 300
_RUN_S = 60


@dataclass(frozen=True)
class Client:
    """An environment: its folder's name, and what pip installs in it."""

    name: str
    packages: tuple[str, ...]


TRITON = Client("tritonclient-2.73.0", ("tritonclient[http,grpc]==2.73.0",))
KSERVE = Client("kserve-0.21.0", ("kserve==0.21.0",))
# The last wheels that hold perf_analyzer for this system's C library; the second package has its libcudart.
PERF_ANALYZER = Client("perf-analyzer-2.51.0", ("tritonclient==2.51.0", "nvidia-cuda-runtime-cu12"))
LOADGEN = Client("mlcommons-loadgen-6.0.17", ("mlcommons-loadgen==6.0.17",))


def environment(client: Client) -> Path:
    """The environment's folder; skips the test where it cannot be made, fails it in CI."""
    folder = cache_folder() / "clients" / f"{client.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    complete = folder / "complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                venv = [sys.executable, "-m", "venv", "--without-pip", folder]
                subprocess.run(venv, check=True, timeout=_INSTALL_S)
                pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install"]
                pip += ["--quiet", "--no-compile", *client.packages]
                subprocess.run(
                    pip, check=True, timeout=_INSTALL_S, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
            except (subprocess.SubprocessError, OSError) as error:
                missing(f"{client.name} cannot be installed: {error}")
            complete.touch()
    return folder


def missing(reason: str) -> None:
    """Skip a test, or fail it where CI is set: there, all clients must have been run."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def run_program(client: Client, program: str, *arguments: object) -> str:
    """Run one of client_programs, most of which take a server's ports; returns what it printed."""
    return run_file(client, Path(__file__).parent / "client_programs" / program, *arguments)


def run_file(client: Client, path: Path, *arguments: object) -> str:
    """Run a Python file in a client's environment; returns what it printed."""
    return _run([environment(client) / "bin" / "python", path, *map(str, arguments)], {})


def run_perf_analyzer(*arguments: str) -> str:
    """Run perf_analyzer with arguments; returns what it printed."""
    folder = environment(PERF_ANALYZER)
    if find_library("b64") is None and not list(Path("/usr/lib").glob("*/libb64.so.0d")):
        missing("perf_analyzer needs libb64 (Debian's package libb64-0d)")
    (cuda,) = folder.glob("lib/*/site-packages/nvidia/cuda_runtime/lib")
    libraries = os.pathsep.join([str(cuda), os.environ.get("LD_LIBRARY_PATH", "")])
    return _run([folder / "bin" / "perf_analyzer", *arguments], {"LD_LIBRARY_PATH": libraries})


def perf_analyzer_counts(told: str) -> tuple[int, int]:
    """Requests that perf_analyzer counted, and inferences by the server's statistics.

    They may differ by a request: it reads the statistics while one is under way.
    """
    found = [re.search(rf"{name} count: (\d+)", told) for name in ("Request", "Inference")]
    assert all(found), told
    client, server = (int(match[1]) for match in found if match)
    return client, server


def _run(command: list[Path | str], variables: dict[str, str]) -> str:
    result = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout
