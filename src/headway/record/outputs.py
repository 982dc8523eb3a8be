"""Where the results of a run or a comparison go: one folder, and in it one for each policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.record.log import LogTable
from headway.record.metrics import Summary, summarise
from headway.record.report import write_report
from headway.record.results import write_results
from headway.record.timeline import write_timeline


@dataclass(frozen=True, slots=True)
class OutputPaths:
    """What was written: for all policies together, and the folder and timeline of each."""

    results: Path
    report: Path
    folders: Mapping[str, Path]
    timelines: Mapping[str, Path]


def policy_folders(directory: Path, policies: Iterable[str]) -> dict[str, Path]:
    """The folder of each policy: its name with everything but letters, digits, dot, dash and underscore
    made a dash (`lucas:lbl` becomes `lucas-lbl`), numbered where two would share one."""
    folders: dict[str, Path] = {}
    taken: set[str] = set()
    for policy in policies:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", policy).strip("-.") or "policy"
        name, number = plain, 1
        while name.lower() in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name.lower())
        folders[policy] = Path(directory) / name
    return folders


def write_outputs(
    directory: Path, runs: Mapping[str, LogTable], summaries: Mapping[str, Summary] | None = None
) -> OutputPaths:
    """Write results.json, report.html and in each policy's folder timeline.json, where its log also goes.

    The timeline is plain JSON, which Perfetto and chrome://tracing open and any script reads; it is
    bounded in size. `summaries` saves computing them again.
    """
    directory = Path(directory)
    if summaries is None:
        summaries = {name: summarise(log) for name, log in runs.items()}
    folders = policy_folders(directory, runs)
    timelines = {name: folder / "timeline.json" for name, folder in folders.items()}
    for name, log in runs.items():
        write_timeline(timelines[name], log)
    write_results(directory / "results.json", summaries)
    write_report(directory / "report.html", runs, summaries)
    return OutputPaths(directory / "results.json", directory / "report.html", folders, timelines)
