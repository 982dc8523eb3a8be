"""results.json: the figures of one or several policies in a stable form, described in docs/results.md."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headway.record.metrics import Scores, Summary

FORMAT: Final = 1


def results_of(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    """What results.json holds, as plain dictionaries; infinite and undefined figures are None."""
    metadata = next(iter(summaries.values())).metadata if summaries else {}
    return {
        "format": FORMAT,
        "scenario": finite(metadata.get("scenario")),
        "seed": metadata.get("seed"),
        "versions": metadata.get("versions", {}),
        "device": finite(metadata.get("device")),
        "policies": {name: _policy(summary) for name, summary in summaries.items()},
    }


def write_results(path: Path, summaries: Mapping[str, Summary]) -> None:
    """Write results.json; the file is replaced whole, so a reader never sees half of one."""
    write_json(path, results_of(summaries))


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file, replaced whole; numbers that JSON cannot hold become null."""
    write_text(path, json.dumps(finite(value), indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary one beside it. The folder is made if it is missing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # a temporary file is private, results are not
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _policy(summary: Summary) -> dict[str, Any]:
    policy: dict[str, Any] = finite(
        {
            "total": _scores(summary.total),
            "tenants": {name: _scores(scores) for name, scores in summary.tenants.items()},
            "cores": {core.name: dataclasses.asdict(core) for core in summary.cores},
            "modes": {name: dataclasses.asdict(mode) for name, mode in summary.modes.items()},
            "span_s": summary.span_s,
            "core_utilisation": summary.core_utilisation,
            "dram_utilisation": summary.dram_utilisation,
            "sla_bound": summary.sla_bound,
            "sla_gap": summary.sla_gap,
        }
    )
    return policy


def _scores(scores: Scores) -> dict[str, Any]:
    return dataclasses.asdict(scores) | {"violations": scores.violations}


def finite(value: Any) -> Any:
    """The same value with None for numbers that JSON cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
