"""What a comparison has found so far, in a file that grows cell by cell, so that it can be gone on with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibration import Calibration
from load import Segment

Cell = tuple[int, float]
"""A round and a utilisation: all systems meet the same arrivals there."""


class Progress:
    """A line for how it began, then one with all segments of each cell.

    A file of another comparison (other systems, seed, loads, SLAs or lengths) is begun anew. One that was
    interrupted is gone on with, with the calibration that its loads and deadlines come from.
    """

    def __init__(self, file: Path, wanted: Mapping[str, Any], *, anew: bool) -> None:
        self._file, self._wanted = file, json.loads(json.dumps(wanted))
        self.calibration: Calibration | None = None
        self.segments: list[dict[str, Any]] = []
        if not anew and file.is_file():
            self._read()

    def _read(self) -> None:
        lines: list[Any] = []
        for line in self._file.read_text().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # it was interrupted while this was written
                break
        if lines and lines[0].get("wanted") == self._wanted:
            self.begin(Calibration(**lines[0]["calibration"]))
            for cell in lines[1:]:
                self._keep(cell)

    @property
    def cells(self) -> set[Cell]:
        """Those that are done."""
        return {(segment["round"], segment["utilisation"]) for segment in self.segments}

    def begin(self, calibration: Calibration) -> None:
        """Begin the file."""
        self.calibration = calibration
        head = {"wanted": self._wanted, "calibration": calibration.as_mapping()}
        self._file.write_text(json.dumps(head) + "\n")

    def add(self, cell: Sequence[Segment]) -> None:
        """All segments of a cell, which is done."""
        self._keep([segment.as_mapping() for segment in cell])

    def _keep(self, cell: list[dict[str, Any]]) -> None:
        self.segments += cell
        with self._file.open("a") as file:
            file.write(json.dumps(cell) + "\n")


def told(segment: Segment) -> str:
    """A line about a segment."""
    outcomes = [record.outcome for record in segment.records]
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("done", "refused", "failed"))
    sla = "" if segment.sla is None else f" SLA {segment.sla:g}"
    return (
        f"round {segment.round} U {segment.utilisation:g}{sla} {segment.system}: {counts}; foreign"
        f" {segment.foreign:.3f}, ours {segment.ours:.2f}, probe {1e3 * segment.probe_s:.1f} ms"
        f" {segment.error}"
    )
