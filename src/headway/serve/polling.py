"""Watching the repository: what changes is loaded again, what comes is loaded, what goes unloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from headway.serve.lifecycle import Models
from headway.serve.repository import Repository, Signature


class Poller:
    """Looks at a repository every so often, on a thread of its own.

    A model counts as changed once two looks in a row found the same files and others than when it was loaded,
    so that one which is being copied there is left alone until it is whole.

    Args:
        models: where they are loaded.
        repository: the folder.
        every_s: between two looks.
        say: called with a few words for each model that cannot be loaded.
    """

    def __init__(
        self, models: Models, repository: Repository, every_s: float, say: Callable[[str], None]
    ) -> None:
        self._models, self._repository, self._every_s, self._say = models, repository, every_s, say
        self._handled: dict[str, Signature] = {}
        self._seen: dict[str, Signature] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> list[Future[None]]:
        """Load all that is there, and look for changes from now on."""
        self._seen = self._look()
        futures = self._heed(self._seen)
        self._thread = threading.Thread(target=self._work, name="headway repository", daemon=True)
        self._thread.start()
        return futures

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> list[Future[None]]:
        """Look once, and begin what follows from it."""
        before, self._seen = self._seen, self._look()
        steady = {name: seen for name, seen in self._seen.items() if before.get(name) == seen}
        return self._heed(steady)

    def _look(self) -> dict[str, Signature]:
        return {name: self._repository.signature(name) for name in self._repository.names()}

    def _heed(self, steady: dict[str, Signature]) -> list[Future[None]]:
        futures = []
        for name, signature in steady.items():
            if signature and self._handled.get(name) != signature:
                self._handled[name] = signature
                futures.append(self._models.load(name))
        for name in [name for name in self._handled if name not in self._seen]:
            del self._handled[name]
            futures.append(self._models.unload(name))
        for future in futures:
            future.add_done_callback(self._report)
        return futures

    def _report(self, future: Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self._say(str(error))

    def _work(self) -> None:
        while not self._closing.wait(self._every_s):
            self.look()
