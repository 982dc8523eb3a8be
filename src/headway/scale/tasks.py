"""What is to be run: scenarios under several policies, and what identifies each run."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.abc import Traversable
from importlib.metadata import version
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Protocol

from headway.config import Scenario, Suite
from headway.config.traces import Trace
from headway.core.errors import HeadwayError
from headway.record.evaluation import Row
from headway.scale.scenario_runs import scenario_runs


class AnyTask(Protocol):
    """Something to be run under each of its policies that is still to be run: a frozen dataclass that a
    process can be sent. All policies meet the same arrivals and the same noise. `coordinates` are where the
    cell lies in its matrix."""

    @property
    def cell(self) -> str: ...

    @property
    def coordinates(self) -> Mapping[str, str | float | None]: ...

    @property
    def policies(self) -> tuple[str, ...]: ...

    @property
    def seed(self) -> int: ...

    def identity(self, policy: str, digest_of: Callable[[Path], str]) -> Mapping[str, Any]:
        """Plain data that is equal exactly where the run is the same; `digest_of` is that of a file."""
        ...

    def begin(self) -> Callable[[str], Row]:
        """Prepare what all policies share; what comes back does one run and gives its figures.

        Raises HeadwayError if that cannot be prepared.
        """
        ...


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

    def identity(self, policy: str, digest_of: Callable[[Path], str]) -> Mapping[str, Any]:
        """See `AnyTask.identity`: the scenario, and the content of the files it names."""
        scenario = self.scenario
        paths = [path for tenant in scenario.tenants if (path := scenario.model_path(tenant)) is not None]
        for tenant in scenario.tenants:
            arrivals = scenario.arrivals_of(tenant)
            if isinstance(arrivals, Trace):
                paths.append(Path(arrivals.file))
        return {
            "scenario": scenario.to_mapping() | {"policy": policy},
            "files": {str(path): digest_of(path) for path in paths},
        }

    def begin(self) -> Callable[[str], Row]:
        """See `AnyTask.begin`."""
        return scenario_runs(self.scenario)


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

    def of(self, task: AnyTask, policy: str) -> str:
        """The key of one run."""
        told = {**self._common, **task.identity(policy, self._of_file)}
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
