"""Abacus: rounds of overlapping segments that end before the deadline of the most urgent query.

After "Enable Simultaneous DNN Services Based on Deterministic Operator Overlap and Precise Latency
Prediction" (SC 2021) and its public code. Known from there: one pending query per service, rounds with a
barrier, the query with the least headroom runs to its end, the largest group of whole queries that fits, the
search for the cut of the next one in several ways at once, the 5 ms, and that the first is dropped if it does
not fit alone. Operators are blocks here. Not known, and ours: that services join in order of headroom, and
how many ways (the code has 2 to 4). The original predicts rounds by a network over one-hot names of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.protocols import View
from headway.policies.registry import policy
from headway.policies.rounds import THRESHOLD_S, Piece, Query, Rounds

WAYS: Final = 4
"""Into so many parts each step of the search divides what is left of the next query's blocks."""


@policy("abacus")
class Abacus(Rounds):
    """Abacus (SC 2021): rounds with a barrier; whole queries while they fit, then part of the next one.

    With Q the headroom of the query A that has least of it, less what is left of the round in flight, a round
    is A and the most further queries, in order of headroom, that are predicted to end within Q together; and
    of the next one as many blocks as a search finds until the round ends less than 5 ms before Q. A is
    dropped if it does not fit alone.
    """

    needs_lanes = True
    estimator = "abacus"

    def group(
        self, queries: Sequence[Query], headroom_s: float, in_flight_s: float, view: View
    ) -> tuple[tuple[Piece, ...], float] | None:
        """The largest whole group that fits, and a part of the next query."""
        within_s = headroom_s - in_flight_s
        pieces = [query.whole() for query in queries[: len(view.device.cores)]]
        seconds = self.predict([pieces[: count + 1] for count in range(len(pieces))], view)
        count = max((at + 1 for at, each_s in enumerate(seconds) if each_s <= within_s), default=0)
        if count == 0:
            return None
        whole = tuple(pieces[:count])
        if count == len(pieces):
            return whole, seconds[-1]
        return self._with_part(whole, seconds[count - 1], queries[count], within_s, view)

    def _with_part(
        self, whole: tuple[Piece, ...], seconds: float, query: Query, within_s: float, view: View
    ) -> tuple[tuple[Piece, ...], float]:
        """The group with as much of one more query as fits."""
        found = whole, seconds
        fits, too_much = query.first, query.request.blocks
        while too_much - fits > 1:
            steps = {fits + (too_much - fits) * way // WAYS for way in range(1, WAYS)}
            ends = sorted(step for step in steps if fits < step < too_much)
            groups = [(*whole, query.until(end)) for end in ends]
            for group, end, each_s in zip(groups, ends, self.predict(groups, view), strict=True):
                if each_s > within_s:
                    too_much = end
                    break
                fits, found = end, (group, each_s)
            if found[0] is not whole and within_s - found[1] < THRESHOLD_S:
                break
        return found
