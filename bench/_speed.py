"""How this machine's speed varied, by what bare sessions took, and a machine that varies likewise.

`stretches_of` makes (start, duration, expected) of runs one after the other into stretches of time with a
factor; `varying` is a machine that goes through such stretches in pieces drawn by a named stream; `ideal` of
`_scores` can run on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from headway.sim.speed import BareRun, Speed, Stretch, repeated, stretches_of
from headway.workload.draws import stream

__all__ = ["BareRun", "Speed", "Stretch", "Timed", "against_median", "described", "stretches_of", "varying"]

SLOWER = (1.25, 2.0, 3.0)

Timed = tuple[str, float, float]
"""A run in a bare session: of what, when it began, and what it took, in seconds."""


def against_median(runs: Iterable[Timed]) -> list[BareRun]:
    """Runs one after the other with what each model took in the median over all of them."""
    runs = list(runs)
    by_name: dict[str, list[float]] = {}
    for name, _, took_s in runs:
        by_name.setdefault(name, []).append(took_s)
    usual_s = {name: median(times) for name, times in by_name.items()}
    return [BareRun(began_s, took_s, usual_s[name]) for name, began_s, took_s in runs]


def varying(stretches: Sequence[Stretch], seed: int, *names: str | int) -> Speed:
    """A machine whose speed varies as was recorded; without a record it is steady."""
    return Speed(repeated(stretches, stream(seed, "host speed", *names)))


def described(stretches: Sequence[Stretch]) -> str:
    """How much slower than in the median, in words."""
    whole_s = sum(stretch.duration_s for stretch in stretches)
    if whole_s <= 0.0:
        return "nothing was recorded"
    mean = whole_s / sum(stretch.duration_s / stretch.factor for stretch in stretches)
    parts = []
    for slower in SLOWER:
        slow_s = sum(stretch.duration_s for stretch in stretches if stretch.factor > slower)
        parts.append(f"{slower:g} times in {100 * slow_s / whole_s:.1f} %")
    return f"{mean:.2f} times the median in the mean, and more than {', '.join(parts)} of {whole_s:.0f} s"
