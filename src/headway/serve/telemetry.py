"""What monitoring asks a server for beyond its figures: queues, decisions, and what it believes of models."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import time
from typing import Final

from headway.core.decision_time import DecisionTimes
from headway.core.engine import Engine
from headway.core.request import State
from headway.serve.answers import Answered
from headway.serve.engine_service import EngineService
from headway.serve.figures import Figures
from headway.serve.histograms import DECISION_SECONDS, Histogram
from headway.serve.refusal import Refusal
from headway.serve.requests import WARM_UP
from headway.serve.service import IndexEntry, ModelState

MOST_UNCOUNTED: Final = 256
"""Times of decisions that wait to be counted, so that they are few when nobody ever looks."""


@dataclass(frozen=True)
class Belief:
    """What the scheduler believes of models, by the engine's name; None for one that it does not know.

    `tier` is how much it knows, 0 to 3. `alone` is what runs alone take lately through what the profile says.
    """

    tier: Callable[[str], int | None]
    alone: Callable[[str], float | None]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A version of a model: its state, and what is believed of it where it is ready."""

    entry: IndexEntry
    tier: int | None = None
    alone: float | None = None
    isolated_s: float | None = None
    profile_age_s: float | None = None
    unsteady: bool | None = None


class Telemetry:
    """Answers monitoring's questions about a server; every method may be called from any thread.

    Nothing here is in a request's way: figures come from answers and log rows that are made anyway, queues
    are counted when somebody looks. Only the times of decisions are read from the policy's thread, some
    hundreds at a time.

    Args:
        name: of the server.
        policy: its policy's name.
        service: what is monitored.
        figures: that hear of its answers and rows.
        engine: its engine.
        decision_times: of that engine; taken out when they are counted.
        belief: about models.
    """

    def __init__(
        self,
        name: str,
        policy: str,
        service: EngineService,
        figures: Figures,
        engine: Engine,
        decision_times: DecisionTimes,
        belief: Belief,
    ) -> None:
        self.name, self.policy = name, policy
        self.service, self.figures, self.engine = service, figures, engine
        self._times, self._belief = decision_times, belief
        self._decision_s = Histogram(DECISION_SECONDS)
        self._lock = threading.Lock()
        service.watch(self._answered)

    def decision_s(self) -> Histogram:
        """What decisions have taken since the start, in seconds."""
        with self._lock:
            self._count_decisions()
            return self._decision_s.copy()

    def under_way(self) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
        """How many requests wait, and how many run, by tenant and NAME/VERSION."""
        waiting: Counter[tuple[str, str]] = Counter()
        running: Counter[tuple[str, str]] = Counter()
        for inference in self.service.under_way():
            request, loaded = inference.request, inference.loaded
            if request.tenant != WARM_UP:
                counter = waiting if request.state is State.READY else running
                counter[request.tenant, f"{loaded.name}/{loaded.version}"] += 1
        return waiting, running

    def models(self) -> list[KnownModel]:
        """All versions of models in the index."""
        return [self._known(entry) for entry in self.service.models.index(only_ready=False)]

    def _known(self, entry: IndexEntry) -> KnownModel:
        if entry.state is not ModelState.READY:
            return KnownModel(entry)
        try:
            loaded = self.service.models.find(entry.name, entry.version)
        except Refusal:  # it went meanwhile
            return KnownModel(entry)
        return KnownModel(
            entry,
            self._belief.tier(loaded.key),
            self._belief.alone(loaded.key),
            loaded.isolated_s,
            max(0.0, time() - loaded.profiled_s) if loaded.profiled_s else None,
            bool(loaded.unsteady),
        )

    def _answered(self, answered: Answered) -> None:
        if len(self._times.seconds) > MOST_UNCOUNTED and self._lock.acquire(blocking=False):
            try:
                self._count_decisions()
            finally:
                self._lock.release()

    def _count_decisions(self) -> None:
        """The policy's thread appends meanwhile: a copy, and a deletion of as many, are each one step."""
        seconds = self._times.seconds
        fresh = seconds[:]
        del seconds[: len(fresh)]
        for each in fresh:
            self._decision_s.add(each)
