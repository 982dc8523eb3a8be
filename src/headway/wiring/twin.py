"""The twin: a scenario simulated from its profile and run for real, on the same arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from headway.policies import make
from headway.record.log import LogTable
from headway.record.twin import TwinReport, compare_twin
from headway.wiring.host import HostRecord
from headway.wiring.live import LiveRun, require_lanes, run
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
    """Run live `repeats` times and simulate once; an interrupted run ends the repeats.

    Before the repeats and after each, bare ONNX Runtime runs on all lanes. The simulation has the variation
    of the machine's speed that this shows (`headway.wiring.host`); of Headway's own runs it knows nothing.

    With `out` logs go to `predicted` and `measured-1`, `measured-2`, ... there. Raises HeadwayError for an
    unknown policy, or a scenario whose hardware is not this machine's lanes.
    """
    make(policy)
    require_lanes(prepared.scenario)
    assert prepared.measured is not None
    host = HostRecord(prepared.measured.lanes)
    host.take()
    runs: list[LiveRun] = []
    for number in range(1, repeats + 1):
        began_s = perf_counter()
        runs.append(run(prepared, policy, None if out is None else out / f"measured-{number}", on_reply))
        if runs[-1].report.interrupted:
            break
        host.take(perf_counter() - began_s)
    as_it_was = replace(prepared, host=host.stretches())
    predicted = simulate(as_it_was, policy, None if out is None else out / "predicted")
    return Twin(predicted, runs, compare_twin(predicted, [live.log for live in runs]))
