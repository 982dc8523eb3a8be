"""The model repository: a folder with one folder for each model and in it one for each version.

    NAME/config.pbtxt or NAME/headway.yaml     optional
    NAME/VERSION/model.onnx                    VERSION is a whole number from 1 on

Nothing outside the folder is ever read: names are letters, digits, '.', '_' and '-', and links that lead out
are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headway.config.batching import Batching
from headway.core.errors import HeadwayError
from headway.serve.repository_config import RepositoryConfig, read_config, with_changes

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}")

Signature = tuple[tuple[str, int, int], ...]
"""Path, size and time of every file of a model: what tells that it changed."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where one version of a model comes from: an .onnx file, or a model of the zoo.

    `shown` names it in messages to clients, which hold no path. `labels` are class names by output.
    """

    name: str
    version: str
    path: Path | None
    zoo: str = ""
    dims: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    batching: Batching | None = None

    @property
    def shown(self) -> str:
        """How messages name it."""
        return f"model {self.name!r} version {self.version}"


class Repository:
    """Reads a folder of models; see the module. Each call looks anew."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def names(self) -> tuple[str, ...]:
        """Models that are there, in alphabetical order; folders with other names are left out."""
        try:
            found = [entry.name for entry in self._root.iterdir() if entry.is_dir()]
        except OSError:
            return ()
        return tuple(sorted(name for name in found if NAME.fullmatch(name)))

    def holds(self, name: str) -> bool:
        """Whether there is a folder for that model."""
        return NAME.fullmatch(name) is not None and (self._root / name).is_dir()

    def versions(self, name: str) -> tuple[int, ...]:
        """All numbered folders of a model, ascending."""
        if not self.holds(name):
            return ()
        folder = self._confined(self._root / name, name)
        found = [entry.name for entry in folder.iterdir() if entry.is_dir()]
        return tuple(sorted(int(version) for version in found if _VERSION.fullmatch(version)))

    def sources(self, name: str, override: str | None = None) -> tuple[ModelSource, ...]:
        """The versions that the model's policy chooses, ascending.

        Args:
            name: the model's folder.
            override: a configuration in JSON that goes before the model's own.

        Raises:
            HeadwayError: no such model, none of its versions, or a configuration that cannot be read or asks
                for what is not there. Messages name files by their place in the repository.
        """
        if not self.holds(name):
            raise HeadwayError(f"no model {name!r} in the repository")
        config = self._config(name, override)
        there = self.versions(name)
        chosen = config.policy.chosen(there)
        missing = [version for version in config.policy.specific if version not in there]
        if missing or not chosen:
            wanted = f"version {missing[0]}" if missing else "a version"
            shown = ", ".join(map(str, there)) or "none"
            raise HeadwayError(f"{name}: found no folder of {wanted}; there are: {shown}")
        return tuple(self._source(name, version, config) for version in chosen)

    def signature(self, name: str) -> Signature:
        """What changes whenever a file of the model does; empty if it cannot be read just now."""
        folder = self._root / name
        try:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            return tuple(
                (str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns)
                for path in files
            )
        except OSError:  # it is being written, or has just been taken away
            return ()

    def _config(self, name: str, override: str | None) -> RepositoryConfig:
        folder = self._confined(self._root / name, name)
        config = RepositoryConfig()
        for file in ("config.pbtxt", "headway.yaml"):
            if (folder / file).is_file():
                config = read_config(self._confined(folder / file, f"{name}/{file}"), f"{name}/{file}", name)
        if override is not None:
            try:
                changes: Any = json.loads(override)
            except (ValueError, RecursionError):
                raise HeadwayError(f"{name}: the configuration given is not JSON") from None
            config = with_changes(config, changes, f"{name}: configuration given", name)
        return config

    def _source(self, name: str, version: int, config: RepositoryConfig) -> ModelSource:
        shown = f"{name}/{version}/{config.file}"
        path = self._confined(self._root / name / str(version) / config.file, shown)
        if not path.is_file():
            raise HeadwayError(f"{shown}: no such file; accepted: an ONNX model there")
        labels = {}
        for output, file in config.labels.items():
            at = self._confined(self._root / name / file, f"{name}/{file}")
            labels[output] = read_labels(at, f"{name}/{file}")
        return ModelSource(
            name, str(version), path, dims=config.dims, labels=labels, batching=config.batching
        )

    def _confined(self, path: Path, shown: str) -> Path:
        """The path with all links followed. Raises HeadwayError if it leads out of the repository."""
        resolved = path.resolve()
        if not resolved.is_relative_to(self._root):
            raise HeadwayError(f"{shown}: leads out of the repository; accepted: files and folders within it")
        return resolved


def read_labels(path: Path, shown: str) -> tuple[str, ...]:
    """Class names, one a line. Raises HeadwayError for a file that cannot be read."""
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        raise HeadwayError(
            f"{shown}: cannot be read; accepted: text in UTF-8, one class name a line"
        ) from None
