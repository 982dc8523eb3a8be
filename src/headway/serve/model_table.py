"""Which versions of which models there are, in what state, and who uses them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from headway.serve.loaded import Loaded
from headway.serve.model_statistics import Tally
from headway.serve.refusal import Cause, Refusal
from headway.serve.repository import Repository
from headway.serve.service import IndexEntry, ModelState


@dataclass
class ModelVersion:
    """A version's state, and what serves it, if anything does."""

    tally: Tally
    state: ModelState = ModelState.UNKNOWN
    reason: str = ""
    loaded: Loaded | None = None


class ModelTable:
    """All versions of all models, and what a repository holds besides. For use from any thread."""

    def __init__(self, repository: Repository | None) -> None:
        self._repository = repository
        self._versions: dict[str, dict[str, ModelVersion]] = {}
        self._lock = threading.RLock()

    def acquire(self, name: str, version: str) -> Loaded:
        """The model that a request shall run on; `release` it. Raises Refusal (NOT_FOUND, UNAVAILABLE)."""
        with self._lock:
            loaded = self._ready(name, version)
            loaded.users += 1
            return loaded

    def hold(self, loaded: Loaded) -> None:
        """A request on it begins that did not have to ask for it; `release` it."""
        with self._lock:
            loaded.users += 1

    def release(self, loaded: Loaded) -> None:
        """A request on it is over."""
        with self._lock:
            loaded.users -= 1
            if loaded.retired and not loaded.users:
                loaded.unused.set()

    def find(self, name: str, version: str) -> Loaded:
        """The same, only to look at."""
        with self._lock:
            return self._ready(name, version)

    def is_ready(self, name: str, version: str) -> bool:
        """Whether requests to it are taken. Raises Refusal (NOT_FOUND) if nobody knows it."""
        try:
            self.find(name, version)
        except Refusal as refusal:
            if refusal.cause is Cause.NOT_FOUND and not self._knows(name, version):
                raise
            return False
        return True

    def versions(self, name: str) -> tuple[str, ...]:
        """Versions of a model that are ready, ascending."""
        with self._lock:
            there = self._versions.get(name, {})
            return tuple(sorted((v for v, each in there.items() if each.loaded is not None), key=int))

    def tally(self, loaded: Loaded) -> Tally:
        """Where its inferences are counted."""
        with self._lock:
            return self._versions[loaded.name][loaded.version].tally

    def tallies(self, name: str, version: str) -> list[Tally]:
        """Of the versions that are ready: of one, of one model, or of all. Raises Refusal as `find` does."""
        with self._lock:
            if name and version:
                return [self.tally(self._ready(name, version))]
            if name:
                self._ready(name, "")
            return [
                each.tally
                for model, versions in sorted(self._versions.items())
                if not name or model == name
                for _, each in sorted(versions.items(), key=lambda item: int(item[0]))
                if each.loaded is not None
            ]

    def _knows(self, name: str, version: str) -> bool:
        with self._lock:
            return name in self._versions and (not version or version in self._versions[name])

    def _ready(self, name: str, version: str) -> Loaded:
        there = self._versions.get(name)
        if there is None:
            raise Refusal(Cause.NOT_FOUND, f"no model {name!r} is loaded")
        if not version:
            ready = [each.loaded for each in there.values() if each.loaded is not None]
            if ready:
                return max(ready, key=lambda loaded: int(loaded.version))
            found = next(iter(there.values()), None)
        else:
            found = there.get(version)
            if found is not None and found.loaded is not None:
                return found.loaded
        shown = f"model {name!r}" + (f" version {version}" if version else "")
        if found is None:
            ready_versions = ", ".join(self.versions(name)) or "none"
            raise Refusal(Cause.NOT_FOUND, f"{shown} is not loaded; there are versions: {ready_versions}")
        if found.state is ModelState.LOADING:
            raise Refusal(Cause.UNAVAILABLE, f"{shown} is being loaded", retry_after_s=1.0)
        if found.state is ModelState.UNLOADING:
            raise Refusal(Cause.UNAVAILABLE, f"{shown} is being unloaded")
        raise Refusal(
            Cause.NOT_FOUND, f"{shown} is not loaded" + (f": {found.reason}" if found.reason else "")
        )

    def index(self, *, only_ready: bool) -> list[IndexEntry]:
        """All versions that are or were loaded, and models of the repository that nobody has loaded yet."""
        with self._lock:
            entries = [
                IndexEntry(name, version, each.state, each.reason)
                for name, versions in self._versions.items()
                for version, each in versions.items()
            ]
            known = set(self._versions)
        if self._repository is not None:
            entries += [
                IndexEntry(name, "", ModelState.UNAVAILABLE, "not loaded")
                for name in self._repository.names()
                if name not in known
            ]
        if only_ready:
            entries = [entry for entry in entries if entry.state is ModelState.READY]
        return sorted(entries, key=lambda entry: (entry.name, int(entry.version or 0)))
