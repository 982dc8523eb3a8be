"""A request, its states, and the one table of transitions between them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from headway.core.block import Mode


class State(StrEnum):
    """Where a request stands."""

    READY = "ready"  # waits for a decision
    RUNNING = "running"  # some of its blocks run
    STOPPING = "stopping"  # runs, but was asked to stop at a safe point
    MOVING = "moving"  # stopped to go on elsewhere, and waits for the last of its new cores
    DONE = "done"  # every block ran
    DROPPED = "dropped"  # given up by the policy, or expired before it started
    CANCELLED = "cancelled"  # withdrawn by the client
    FAILED = "failed"  # its run failed


TRANSITIONS: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.RUNNING, State.DROPPED, State.CANCELLED}),
    State.RUNNING: frozenset(
        {State.READY, State.STOPPING, State.DONE, State.DROPPED, State.CANCELLED, State.FAILED}
    ),
    State.STOPPING: frozenset(
        {State.READY, State.MOVING, State.DONE, State.DROPPED, State.CANCELLED, State.FAILED}
    ),
    State.MOVING: frozenset({State.RUNNING, State.DROPPED, State.CANCELLED}),
    State.DONE: frozenset(),
    State.DROPPED: frozenset(),
    State.CANCELLED: frozenset(),
    State.FAILED: frozenset(),
}
"""Every transition that exists. Anything else is a defect of the engine and raises TransitionError."""

STORY_LENGTH = 20


class TransitionError(RuntimeError):
    """An impossible transition was asked for; the message tells the request's last events."""


@dataclass(frozen=True, slots=True)
class Partial:
    """What a stopped run left behind. A Dispatch equal in these resumes it; any other discards it.

    `done` is the share of the range (one block of a serial or split run) that is finished, in (0, 1);
    `kinds` are the names of the core types it ran on. `spilled_bytes` must be read back on resuming.
    """

    first: int
    end: int
    mode: Mode
    cuts: tuple[int, ...]
    band_rows: int | None
    kinds: tuple[str, ...]
    done: float
    spilled_bytes: float

    def resumed_by(
        self,
        first: int,
        end: int,
        mode: Mode,
        cuts: tuple[int, ...],
        band_rows: int | None,
        kinds: tuple[str, ...],
    ) -> bool:
        """Whether a dispatch with these properties goes on where this left off."""
        if first != self.first or mode is not self.mode or kinds != self.kinds:
            return False
        if mode in (Mode.SERIAL, Mode.SPLIT):
            return end >= self.end
        return end == self.end and cuts == self.cuts and band_rows == self.band_rows


@dataclass(slots=True, eq=False)
class Request:
    """One inference asked for by a tenant. Only the engine changes it.

    Times are seconds on the driver's clock. `index` counts a tenant's requests. `expires_s` drops it
    then if it has not started, whatever the policy. `weight` is the tenant's share where a policy
    regards it, `priority` grows with importance, `strict` marks a tenant with an SLA (False: best effort).
    `most_batch` is the largest batch that it may run in, `batch_delay_s` how long after its arrival a policy
    that batches may let it wait for others.
    """

    id: int
    tenant: str
    index: int
    model: str
    arrival_s: float
    deadline_s: float
    blocks: int
    isolated_s: float
    priority: int = 0
    weight: float = 1.0
    strict: bool = True
    expires_s: float | None = None
    most_batch: int = 1
    batch_delay_s: float = 0.0
    next_block: int = 0
    state: State = State.READY
    partial: Partial | None = None
    ready_since_s: float = 0.0
    key: tuple[float, ...] = ()
    story: deque[tuple[float, State, State]] = field(default_factory=lambda: deque(maxlen=STORY_LENGTH))

    @property
    def started(self) -> bool:
        """Whether any of it ever ran."""
        return bool(self.story)

    def to(self, state: State, now: float) -> None:
        """Change state, or raise TransitionError with the request's story if there is no such transition."""
        if state not in TRANSITIONS[self.state]:
            story = "\n  ".join(f"{at:.9f} s: {old} -> {new}" for at, old, new in self.story) or "(none)"
            raise TransitionError(
                f"request {self.id} of tenant {self.tenant!r}: {self.state} -> {state} at {now:.9f} s"
                f" is no transition; its last events:\n  {story}"
            )
        self.story.append((now, self.state, state))
        self.state = state
