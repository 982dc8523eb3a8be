"""Requests that bring several rows for a model that batches: each row is an inference of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.serve.refusal import Cause, Refusal
from headway.serve.service import Done, InferenceRequest, InferenceResult, Ticket

Submit = Callable[[InferenceRequest, Done], Ticket]


def rows_of(inputs: Mapping[str, Any], most: int, model: str) -> int:
    """How many rows a request brings.

    Raises Refusal (INVALID) for more than `most`, none, or inputs that disagree.
    """
    counts = {name: array.shape[0] if array.ndim else 0 for name, array in inputs.items()}
    rows = max(counts.values(), default=1)
    for name, count in counts.items():
        if count != rows or not 1 <= count <= most:
            raise Refusal(
                Cause.INVALID,
                f"model {model!r}: input {name!r} has a batch of {count};"
                f" accepted: from 1 to {most}, the same for all inputs",
            )
    return rows


class Joint:
    """One request of several rows under way. Implements `headway.serve.service.Ticket`.

    Its rows are submitted one by one, so that whoever schedules runs them together, with others or apart. It
    is answered when all of them are: with their outputs one after the other, or with the first refusal, which
    withdraws the others.
    """

    def __init__(self, rows: int, divided: Collection[str], done: Done) -> None:
        """`divided` are the outputs that hold a part for each row."""
        self._answers: list[InferenceResult | None] = [None] * rows
        self._divided = divided
        self._done: Done | None = done
        self._tickets: list[Ticket] = []
        self._left = rows
        self._lock = threading.Lock()

    def submit(self, request: InferenceRequest, submit: Submit) -> None:
        """Begin all of them. Raises Refusal if one is refused at once; those that began are withdrawn."""
        for row in range(len(self._answers)):
            inputs = {name: array[row : row + 1] for name, array in request.inputs.items()}
            one = replace(
                request,
                inputs=inputs,
                body_bytes=request.body_bytes // len(self._answers),
                visit=None if row else request.visit,
            )
            try:
                ticket = submit(one, lambda answer, row=row: self._hear(row, answer))  # type: ignore[misc]
            except Refusal:
                self._take_done()
                self.cancel()
                raise
            self._tickets.append(ticket)
            if self._done is None:  # an earlier row was refused meanwhile, or the client has gone
                self.cancel()
                return

    def cancel(self) -> None:
        """The client has gone."""
        for ticket in self._tickets:
            ticket.cancel()

    def _hear(self, row: int, answer: InferenceResult | Refusal) -> None:
        if isinstance(answer, Refusal):
            done = self._take_done()
            if done is not None:
                done(answer)
                self.cancel()
            return
        with self._lock:
            self._answers[row] = answer
            self._left -= 1
            over = not self._left
        if over and (done := self._take_done()) is not None:
            done(self._joined([each for each in self._answers if each is not None]))

    def _take_done(self) -> Done | None:
        with self._lock:
            done, self._done = self._done, None
        return done

    def _joined(self, answers: Sequence[InferenceResult]) -> InferenceResult:
        import numpy as np

        first = answers[0]
        outputs = {
            name: np.concatenate([each.outputs[name] for each in answers]) if name in self._divided else value
            for name, value in first.outputs.items()
        }
        return replace(
            first,
            outputs=outputs,
            queue_s=max(each.queue_s for each in answers),
            compute_s=max(each.compute_s for each in answers),
        )
