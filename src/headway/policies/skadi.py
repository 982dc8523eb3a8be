"""SKADI: rounds of two, the most urgent query whole and as much of the second as fits.

After "Scheduling based on Block Features for Concurrent Inference with Unseen DNN Models on GPU" (ICPP 2025),
its public code and its figures. Known from there: one pending query per model, rounds with a barrier, pairs
only, drops without headroom, three probes, 5 ms, and that the round in flight counts when it is asked whether
queries fit, but not in the search for the cut. Not known, and ours: what runs if the last probe does not fit
(here the largest cut that did, or the first query alone). The code also runs two fresh queries with batches
of 16 or more one after the other in one of its variants; a request's batch is not known to policies here, so
that there is none of it. The original predicts rounds by a network over counts of operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.protocols import View
from headway.policies.registry import policy
from headway.policies.rounds import THRESHOLD_S, Piece, Query, Rounds

PROBES: Final = 3


@policy("skadi")
class Skadi(Rounds):
    """SKADI (ICPP 2025): rounds with a barrier of the two queries with least headroom.

    With Q the headroom of the first, less what is left of the round in flight: both whole if they are
    predicted to end within Q; else the first whole beside the blocks of the second that a binary search of
    three probes finds, until the round ends less than 5 ms before the headroom; the first is dropped if it
    does not fit alone.
    """

    needs_lanes = True
    estimator = "skadi"

    def group(
        self, queries: Sequence[Query], headroom_s: float, in_flight_s: float, view: View
    ) -> tuple[tuple[Piece, ...], float] | None:
        """The first query, and the second or a part of it."""
        within_s = headroom_s - in_flight_s
        first = queries[0].whole()
        alone_s = self.predict([(first,)], view)[0]
        if len(queries) > 1 and len(view.device.cores) > 1:
            both = first, queries[1].whole()
            both_s = self.predict([both], view)[0]
            if both_s <= within_s:
                return both, both_s
        if alone_s > within_s:
            return None
        if len(queries) > 1 and len(view.device.cores) > 1:
            return self._with_part(first, alone_s, queries[1], headroom_s, view)
        return (first,), alone_s

    def _with_part(
        self, first: Piece, alone_s: float, second: Query, headroom_s: float, view: View
    ) -> tuple[tuple[Piece, ...], float]:
        """The first query beside as much of the second as the search finds."""
        found: tuple[tuple[Piece, ...], float] = (first,), alone_s
        low, high = second.first, second.request.blocks
        for _ in range(PROBES):
            if high - low < 2:
                break
            end = (low + high) // 2
            group = first, second.until(end)
            seconds = self.predict([group], view)[0]
            slack_s = headroom_s - seconds
            if slack_s < 0.0:
                high = end
                continue
            low, found = end, (group, seconds)
            if slack_s < THRESHOLD_S or high - low <= 2:
                break
        return found
