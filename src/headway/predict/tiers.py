"""How much is known of a model, and what that allows.

| tier | what is known |
| --- | --- |
| C0 | the graph only: it is believed to take up to twice as long, and runs alone |
| C1 | three runs alone of each block: it may be a partner, with the 99 % loss and a margin of 1.25 or more |
| C2 | twenty overlaps in its classes of blocks, or five of its own |
| C3 | a hundred overlaps of its own |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

SOLO_RUNS: Final = 3
CLASS_OVERLAPS: Final = 20
FIRST_OVERLAPS: Final = 5
OWN_OVERLAPS: Final = 100


class Tier(IntEnum):
    """How much is known, from the graph only to many overlaps of its own."""

    C0 = 0
    C1 = 1
    C2 = 2
    C3 = 3


class Tiers:
    """Counts what was seen of every model and says its tier.

    `classes` gives the classes of a model's blocks, `blocks` how many it has; `profiled` says for each model
    how often its blocks have run alone before the log begins, 3 unless it says otherwise: models are
    profiled when they are loaded.
    """

    def __init__(
        self,
        classes: Callable[[str], Iterable[int]],
        blocks: Callable[[str], int],
        profiled: Mapping[str, int] | None = None,
    ) -> None:
        self._classes = classes
        self._blocks = blocks
        self._profiled = profiled or {}
        self._solo: dict[str, list[int]] = {}
        self._own: dict[str, int] = {}
        self._in_class: dict[int, int] = {}
        self._not_counted: dict[str, int] = {}  # class overlaps from before a drift

    def of(self, model: str) -> Tier:
        """The tier of a model."""
        if self._fewest_solo(model) < SOLO_RUNS:
            return Tier.C0
        own = self._own.get(model, 0)
        if own >= OWN_OVERLAPS:
            return Tier.C3
        if own >= FIRST_OVERLAPS or self._class_overlaps(model) >= CLASS_OVERLAPS:
            return Tier.C2
        return Tier.C1

    def ran_alone(self, model: str, first: int, end: int) -> None:
        """Blocks of a model ran alone."""
        counts = self._solo.setdefault(model, [0] * self._blocks(model))
        for block in range(first, end):
            counts[block] += 1

    def overlapped(self, model: str, classes: Iterable[int]) -> None:
        """A run of a model overlapped with another; `classes` are those of both."""
        self._own[model] = self._own.get(model, 0) + 1
        for each in set(classes):
            self._in_class[each] = self._in_class.get(each, 0) + 1

    def drifted(self, model: str) -> None:
        """What was learnt of a model no longer holds: it goes down by one tier, at most to C1."""
        tier = self.of(model)
        if tier is Tier.C3:
            self._own[model] = FIRST_OVERLAPS
        elif tier is Tier.C2:
            self._own[model] = 0
            self._not_counted[model] = self._counted(model)

    def state(self) -> dict[str, Any]:
        """All that was counted."""
        return {
            "solo": {model: list(counts) for model, counts in self._solo.items()},
            "own": dict(self._own),
            "in_class": dict(self._in_class),
            "not_counted": dict(self._not_counted),
        }

    def _fewest_solo(self, model: str) -> int:
        before = self._profiled.get(model, SOLO_RUNS)
        if before >= SOLO_RUNS:
            return before
        return before + min(self._solo.get(model, (0,)))

    def _counted(self, model: str) -> int:
        return sum(self._in_class.get(each, 0) for each in set(self._classes(model)))

    def _class_overlaps(self, model: str) -> int:
        return self._counted(model) - self._not_counted.get(model, 0)
