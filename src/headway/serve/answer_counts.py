"""Every answer counted by its model, and told to whoever watches."""

from __future__ import annotations

from collections.abc import Callable

from headway.serve.answers import Answered, Inference
from headway.serve.lifecycle import Models
from headway.serve.loaded import Loaded
from headway.serve.refusal import Refusal
from headway.serve.service import InferenceResult


class AnswerCounts:
    """Counts in the models' tallies. Watchers are called on the thread that answers, and must not block."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._watchers: tuple[Callable[[Answered], None], ...] = ()

    def watch(self, watcher: Callable[[Answered], None]) -> None:
        """Have every answer told, and what a tenant was refused at once."""
        self._watchers = (*self._watchers, watcher)

    def answered(self, inference: Inference, answer: InferenceResult | Refusal, now: float) -> None:
        """An inference has its answer at that time on the engine's clock."""
        request, loaded = inference.request, inference.loaded
        total_s = now - request.arrival_s
        tally = self._models.tally(loaded)
        refusal = answer if isinstance(answer, Refusal) else None
        queue_s, compute_s = (0.0, 0.0) if isinstance(answer, Refusal) else (answer.queue_s, answer.compute_s)
        if refusal is None:
            tally.succeed(
                queue_s=queue_s,
                input_s=inference.input_s,
                compute_s=compute_s,
                total_s=total_s,
                batch=1 if isinstance(answer, Refusal) else answer.batch,
            )
        else:
            tally.fail(total_s)
        if self._watchers:
            answered = Answered(
                request.tenant,
                loaded.name,
                loaded.version,
                request.deadline_s - request.arrival_s,
                total_s,
                queue_s,
                compute_s,
                refusal is None and now <= request.deadline_s,
                refusal,
                None if refusal is None else refusal.predicted_finish_s,
            )
            for watcher in self._watchers:
                watcher(answered)

    def refused_at_once(self, tenant: str, loaded: Loaded, refusal: Refusal) -> None:
        """A tenant's request for a model was refused before the engine had it."""
        answered = Answered(tenant, loaded.name, loaded.version, 0.0, 0.0, 0.0, 0.0, False, refusal)
        for watcher in self._watchers:
            watcher(answered)
