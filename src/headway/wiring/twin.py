"""The twin: a scenario simulated from its profile and run for real, on the same arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.record.log import LogTable
from headway.record.twin import TwinReport, compare_twin
from headway.wiring.live import LiveRun, run
from headway.wiring.prepared import Answered, Prepared
from headway.wiring.simulated import simulate


@dataclass(frozen=True)
class Twin:
    """A prediction, live repeats of the same arrivals, and their comparison."""

    predicted: LogTable
    repeats: Sequence[LiveRun]
    report: TwinReport


def twin(
    prepared: Prepared,
    policy: str,
    repeats: int = 3,
    out: Path | None = None,
    on_reply: Answered | None = None,
) -> Twin:
    """Simulate once and run live `repeats` times; an interrupted run ends the repeats.

    With `out` logs go to `predicted` and `measured-1`, `measured-2`, ... there. Raises HeadwayError for an
    unknown policy, or a scenario whose hardware is not this machine's lanes.
    """
    predicted = simulate(prepared, policy, None if out is None else out / "predicted")
    runs: list[LiveRun] = []
    for number in range(1, repeats + 1):
        runs.append(run(prepared, policy, None if out is None else out / f"measured-{number}", on_reply))
        if runs[-1].report.interrupted:
            break
    return Twin(predicted, runs, compare_twin(predicted, [live.log for live in runs]))
