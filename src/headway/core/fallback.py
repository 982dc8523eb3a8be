"""What is done while a policy cannot be relied on: earliest deadline first, nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from headway.core.messages import Dispatch
from headway.core.protocols import View

KEPT_CAUSES: Final = 20


class Faults:
    """How often a policy failed, and the last causes with their times in seconds.

    `fallbacks` counts those of them in which earliest deadline decided.
    """

    __slots__ = ("count", "fallbacks", "last")

    def __init__(self) -> None:
        self.count = self.fallbacks = 0
        self.last: deque[tuple[float, str]] = deque(maxlen=KEPT_CAUSES)

    def add(self, at_s: float, cause: str) -> None:
        """Count one."""
        self.count += 1
        self.last.append((at_s, cause))


def earliest_deadline(view: View) -> Iterator[Dispatch]:
    """Give every idle core the waiting request with the next earliest deadline, to its end.

    It sorts for itself: the order of `view.ready` comes from the policy that failed.
    """
    urgent = sorted(view.ready, key=lambda request: (request.deadline_s, request.arrival_s, request.id))
    for core, request in zip(tuple(view.idle), urgent, strict=False):
        yield Dispatch((request,), range(request.next_block, request.blocks), (core,))
