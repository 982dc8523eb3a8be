"""Models' life: found, loaded beside what runs, swapped, drained and given back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Protocol

from headway.core.errors import HeadwayError
from headway.serve.causes import without_paths
from headway.serve.loaded import Loaded
from headway.serve.memory import return_memory
from headway.serve.model_statistics import Tally
from headway.serve.model_table import ModelTable, ModelVersion
from headway.serve.refusal import Cause, Refusal
from headway.serve.repository import ModelSource, Repository
from headway.serve.service import ModelState
from headway.serve.uploads import staged

_NO_VERSION: Final = "0"
"""Stands in the index for a model of which not even the versions could be read."""


class Installer(Protocol):
    """What makes models run."""

    def install(self, source: ModelSource) -> Loaded:
        """Take a model in, make it known to the engine, run it once. Raises HeadwayError if that fails."""
        ...

    def remove(self, loaded: Loaded) -> None:
        """Give back all that a model held; nothing of it is under way any more."""
        ...


class Models(ModelTable):
    """All models of a server: those of its configuration, which stay, and those of its repository.

    One thread loads, one model at a time; others wait for models to drain. A version that is loaded again
    serves its old self until the new one is warm; one that cannot be loaded again goes on with its old self.
    """

    def __init__(self, installer: Installer, repository: Repository | None) -> None:
        super().__init__(repository)
        self._installer = installer
        self._own: dict[str, ModelSource] = {}
        self._loader = ThreadPoolExecutor(1, "headway loading")
        self._drains = ThreadPoolExecutor(4, "headway draining")

    @property
    def own(self) -> Sequence[ModelSource]:
        """Models of the configuration."""
        return tuple(self._own.values())

    def keep(self, source: ModelSource) -> None:
        """Have a model that is not of the repository; `load` it next."""
        with self._lock:
            self._own[source.name] = source

    def forget(self, name: str) -> None:
        """A model of the configuration is in it no more; `unload` it next."""
        with self._lock:
            self._own.pop(name, None)

    def load(
        self, name: str, override: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> Future[None]:
        """Load all versions of a model that shall be served, again if they are loaded, and unload others.

        `override` is a configuration in JSON; `files` stand in place of the model's folder.

        The future's exception is a Refusal for a model that is unknown or cannot be loaded.
        """
        if files:
            return self._loader.submit(self._load_uploaded, name, override, files)
        return self._loader.submit(self._load, name, self._repository, override)

    def unload(self, name: str) -> Future[None]:
        """Drain a model and give it back. The future's exception is a Refusal for one that is not loaded."""
        return self._loader.submit(self._unload, name)

    def close(self) -> None:
        """Load nothing any more."""
        self._loader.shutdown(wait=True, cancel_futures=True)
        self._drains.shutdown(wait=True, cancel_futures=True)

    def _sources(
        self, name: str, repository: Repository | None, override: str | None
    ) -> Sequence[ModelSource]:
        with self._lock:
            own = self._own.get(name)
        if own is not None:
            return (own,)
        if repository is None or not repository.holds(name):
            raise Refusal(Cause.NOT_FOUND, f"no model {name!r} in the repository")
        return repository.sources(name, override)

    def _load_uploaded(self, name: str, override: str | None, files: Mapping[str, bytes]) -> None:
        if name in self._own:
            raise Refusal(
                Cause.CONFLICT,
                f"model {name!r} is one of the configuration's own; accepted: files of others",
            )
        try:
            with staged(name, files) as repository:
                self._load(name, repository, override)
        except HeadwayError as error:
            raise Refusal(Cause.INVALID, without_paths(str(error))) from None

    def _load(self, name: str, repository: Repository | None, override: str | None) -> None:
        try:
            sources = self._sources(name, repository, override)
        except (HeadwayError, OSError) as error:
            said = str(error) if isinstance(error, HeadwayError) else f"{name}: {error.strerror}"
            self._note_unavailable(name, without_paths(said))
            raise Refusal(Cause.INVALID, without_paths(said)) from None
        with self._lock:
            there = self._versions.setdefault(name, {})
            there.pop(_NO_VERSION, None)
            for source in sources:
                each = there.setdefault(source.version, ModelVersion(Tally(name, source.version)))
                if each.loaded is None:
                    each.state, each.reason = ModelState.LOADING, ""
        failures = [cause for source in sources if (cause := self._load_version(source)) is not None]
        wanted = {source.version for source in sources}
        with self._lock:
            others = [version for version in there if version not in wanted]
        for version in others:
            self._retire(name, version, None).result()
        if failures:
            raise Refusal(Cause.INVALID, failures[0])

    def _load_version(self, source: ModelSource) -> str | None:
        """Load one version; returns why that cannot be."""
        try:
            loaded = self._installer.install(source)
        except Exception as error:  # whatever a model does, the server goes on
            said = str(error) if isinstance(error, HeadwayError) else f"{type(error).__name__}: {error}"
            cause = f"{source.shown}: {without_paths(said, source.path)}"
            with self._lock:
                each = self._versions[source.name][source.version]
                each.reason = cause
                if each.loaded is None:
                    each.state = ModelState.UNAVAILABLE
            return cause
        self._retire(source.name, source.version, loaded)
        return None

    def _unload(self, name: str) -> None:
        with self._lock:
            there = self._versions.get(name, {})
            loaded = [version for version, each in there.items() if each.loaded is not None]
            known = bool(there)
        if not known:
            raise Refusal(Cause.NOT_FOUND, f"no model {name!r} is loaded")
        for ended in [self._retire(name, version, None) for version in loaded]:
            ended.result()
        with self._lock:
            if self._repository is None or not self._repository.holds(name):
                self._versions.pop(name, None)
            else:
                for each in there.values():
                    each.state, each.reason = ModelState.UNAVAILABLE, "unloaded"

    def _retire(self, name: str, version: str, successor: Loaded | None) -> Future[None]:
        """Put another in a version's place, or nothing, and give the old one back once it is unused."""
        with self._lock:
            each = self._versions[name][version]
            old, each.loaded = each.loaded, successor
            if successor is not None:
                each.state, each.reason = ModelState.READY, ""
            elif old is not None:
                each.state, each.reason = ModelState.UNLOADING, ""
            if old is not None:
                old.retired = True
                if not old.users:
                    old.unused.set()
        return self._drains.submit(self._give_back, old, each, name, version)

    def _give_back(self, old: Loaded | None, each: ModelVersion, name: str, version: str) -> None:
        if old is not None:
            old.unused.wait()
            self._installer.remove(old)
            del old
            return_memory()
        with self._lock:
            if each.loaded is None:
                each.state, each.reason = ModelState.UNAVAILABLE, "unloaded"

    def _note_unavailable(self, name: str, reason: str) -> None:
        with self._lock:
            there = self._versions.setdefault(name, {})
            for each in there.values():
                if each.loaded is None:
                    each.state, each.reason = ModelState.UNAVAILABLE, reason
            if not there:
                there[_NO_VERSION] = ModelVersion(Tally(name, _NO_VERSION), ModelState.UNAVAILABLE, reason)
