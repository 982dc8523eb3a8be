"""What bench/live.py has measured so far, in a file with one record a line, from which it can go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _scores import Score


@dataclass(frozen=True)
class Machine:
    """What was found at the start; whoever goes on keeps it, so as to have the same arrivals."""

    seed: int
    duration_s: float
    repeats: int
    spinning: bool
    isolated_s: dict[str, float]
    ours_s: dict[str, float]
    capacity_s: float
    shown: str


@dataclass(frozen=True)
class Backlog:
    """Seconds of work that a system did in a second of one backlog."""

    system: str
    repeat: int
    work_s: float


@dataclass(frozen=True)
class Run:
    """A system on the arrivals of one utilisation and repeat; with no `sla`, the same for each.

    `scores` are by SLA, `speed_s` what the bare wide session took of each model right after. `stretches` are
    seconds and factors by which bare wide sessions were slower than in the median, in this run and after it.
    """

    utilisation: float
    sla: float | None
    repeat: int
    system: str
    scores: dict[str, Score]
    speed_s: dict[str, float]
    stretches: list[tuple[float, float]] = field(default_factory=list)

    def score(self, sla: float) -> Score:
        """What it scores with SLAs of so many times the isolated latency."""
        return self.scores[f"{sla:g}"]


@dataclass
class Records:
    """All that was measured, kept in a file if there is one."""

    path: Path | None
    machine: Machine | None = None
    backlogs: list[Backlog] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path | None) -> Records:
        """Those of an earlier start. A last line that is cut off is left out."""
        found = cls(path)
        if path is None or not path.exists():
            return found
        text = path.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole)
        for line in whole.splitlines():
            kind, values = json.loads(line)
            if kind == "machine":
                found.machine = Machine(**values)
            elif kind == "backlog":
                found.backlogs.append(Backlog(**values))
            else:
                values["scores"] = {sla: Score(**score) for sla, score in values["scores"].items()}
                found.runs.append(Run(**values))
        return found

    def add(self, record: Machine | Backlog | Run) -> None:
        """Keep one more."""
        if isinstance(record, Machine):
            self.machine = record
        elif isinstance(record, Backlog):
            self.backlogs.append(record)
        else:
            self.runs.append(record)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps([type(record).__name__.lower(), asdict(record)]) + "\n")

    def of(self, utilisation: float, sla: float, repeat: int) -> Iterator[Run]:
        """The runs of one cell's repeat."""
        for run in self.runs:
            if (run.utilisation, run.repeat) == (utilisation, repeat) and run.sla in (sla, None):
                yield run
