"""Environments of the servers that Headway is compared with: their packages clash with ours and each other's.

Each is made when it is first needed, in the folder `peers` of Headway's cache, and used again later.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from headway.live.cache import cache_folder

_INSTALL_S = 600
ONNXRUNTIME = "onnxruntime==1.32.0"  # the same for everybody, ours included


@dataclass(frozen=True)
class Environment:
    """A folder's name, what pip installs in it, and Debian's Python where the peer takes no other."""

    name: str
    packages: tuple[str, ...]
    debian_python: bool = False

    @property
    def interpreter(self) -> str:
        """The Python that the environment is made with; raises FileNotFoundError."""
        if not self.debian_python:
            return sys.executable
        path = Path("/usr/bin/python3")
        if not path.is_file():
            raise FileNotFoundError(f"{self.name} needs Debian's Python, {path}")
        return str(path)


ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("fastapi", ("fastapi==0.165.0", "uvicorn[standard]==0.54.0", ONNXRUNTIME)),
        Environment("litserve", ("litserve==0.2.19", ONNXRUNTIME)),
        # Ends with a Python of 3.11.7 or later: its wheel holds a Python library of its own.
        Environment("pytriton", ("nvidia-pytriton==0.7.0", "numpy<2", ONNXRUNTIME), debian_python=True),
        Environment("mlserver", ("mlserver==1.7.1", "uvloop<0.22", ONNXRUNTIME)),
        Environment("rayserve", ("ray[serve]==2.60.0", ONNXRUNTIME)),
    )
}


def program(name: str, command: str = "python") -> Path:
    """A program of an environment, which is made if need be.

    Raises subprocess.SubprocessError or OSError where it cannot be.
    """
    environment = ENVIRONMENTS[name]
    folder = cache_folder() / "peers" / name
    complete = folder / "complete"
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join([environment.interpreter, *environment.packages])
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.is_file() or complete.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run(
                [environment.interpreter, "-m", "venv", "--without-pip", folder],
                check=True,
                timeout=_INSTALL_S,
            )
            pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
            subprocess.run(
                [*pip, "-qq", *environment.packages],
                check=True,
                timeout=_INSTALL_S,
                env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            )
            complete.write_text(wanted)
    return folder / "bin" / command


if __name__ == "__main__":
    for each in sys.argv[1:] or ENVIRONMENTS:
        print(program(each), flush=True)
