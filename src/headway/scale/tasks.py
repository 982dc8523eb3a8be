"""What is to be run: scenarios under several policies, and what identifies each run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.abc import Traversable
from importlib.metadata import version
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from headway.config import Scenario, Suite
from headway.config.traces import Trace
from headway.core.errors import HeadwayError


@dataclass(frozen=True, slots=True)
class Task:
    """One scenario with one seed, under the policies that are still to be run on it.

    They meet the same arrivals and the same noise. `coordinates` are where the cell lies in its matrix.
    """

    cell: str
    coordinates: Mapping[str, str | float | None]
    scenario: Scenario
    policies: tuple[str, ...]

    @property
    def seed(self) -> int:
        """The scenario's seed."""
        return self.scenario.seed


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A file of a user's policies, by name and content, so that other machines need not have it."""

    name: str
    source: str

    @classmethod
    def read(cls, path: Path) -> PolicyFile:
        """Raises HeadwayError if there is no such file, or if it is no text."""
        if not path.is_file():
            raise HeadwayError(f"--policy-file: found no file {path}; accepted: a Python file")
        try:
            return cls(str(path), path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise HeadwayError(f"--policy-file {path}: {error}; accepted: a Python file in UTF-8") from None

    def register(self) -> None:
        """Run it, so that its policies can be named. Raises HeadwayError, with the line, if that fails."""
        # A module that can be found by its name, since dataclasses look theirs up. Its name stays the same if
        # the file changes, so that a new version of a policy takes the place of the old one.
        module = ModuleType(f"policy_file_{_digest(self.name.encode())[:12]}")
        module.__file__ = self.name
        sys.modules[module.__name__] = module
        try:
            exec(compile(self.source, self.name, "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            lines = [at.lineno for at in extract_tb(error.__traceback__) if at.filename == self.name]
            place = f"{self.name}:{lines[-1]}" if lines else self.name
            raise HeadwayError(f"--policy-file {place}: {type(error).__name__}: {error}") from error


def tasks_of(suite: Suite, seeds: Sequence[int], policies: Sequence[str], cells: Sequence[str]) -> list[Task]:
    """A task for each cell and seed of a suite; `cells` are the names of those wanted, none for all.

    Raises HeadwayError for a cell that the suite does not have.
    """
    chosen = [suite.cell(name) for name in cells] if cells else suite.cells()
    return [
        Task(cell.name, cell.coordinates, suite.scenario(cell, seed), tuple(policies))
        for cell in chosen
        for seed in seeds
    ]


class Keys:
    """Names for runs that are equal exactly if nothing that their results depend on has changed.

    That is the scenario with its seed and the content of the files it names, the policy, the policy files,
    and Headway itself: its version and its code.
    """

    def __init__(self, policy_files: Sequence[PolicyFile] = ()) -> None:
        self._common = {
            "headway": version("headway"),
            "code": _code_digest(),
            "policies": [[file.name, _digest(file.source.encode())] for file in policy_files],
        }
        self._files: dict[Path, str] = {}

    def of(self, task: Task, policy: str) -> str:
        """The key of one run."""
        scenario = task.scenario
        paths = [path for tenant in scenario.tenants if (path := scenario.model_path(tenant)) is not None]
        for tenant in scenario.tenants:
            arrivals = scenario.arrivals_of(tenant)
            if isinstance(arrivals, Trace):
                paths.append(Path(arrivals.file))
        told: dict[str, Any] = {
            **self._common,
            "scenario": scenario.to_mapping() | {"policy": policy},
            "files": {str(path): self._of_file(path) for path in paths},
        }
        return _digest(json.dumps(told, sort_keys=True).encode())[:32]

    def _of_file(self, path: Path) -> str:
        if path not in self._files:
            file = Path(str(path).partition("#")[0])  # a model inside a file
            self._files[path] = _digest(file.read_bytes()) if file.is_file() else "missing"
        return self._files[path]


@cache
def _code_digest() -> str:
    """Of all files of the package that can change a result."""
    found = hashlib.sha256()

    def add(folder: Traversable, place: str) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                if entry.name not in ("__pycache__", "cli", "templates"):
                    add(entry, f"{place}/{entry.name}")
            elif not entry.name.endswith(".pyc"):
                found.update(f"{place}/{entry.name}\0".encode() + entry.read_bytes() + b"\0")

    add(resources.files("headway"), "")
    return found.hexdigest()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
