"""Predicted against measured: a simulated run beside live repeats of the same arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np

from headway.record.columns import batches_of, stretches_of
from headway.record.log import LogTable
from headway.record.metrics import Summary, summarise
from headway.record.results import write_json

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Pair:
    """One figure, predicted and measured.

    `measured` is the mean of the repeats and `repeats` each of them. `repeat_difference` is the 95th
    percentile of the absolute differences between two repeats, `error` the absolute difference between
    prediction and mean, and `beyond` how much of the error the repeats do not account for (0: none).
    Shares are between 0 and 1; for latencies error and differences are relative to the mean.
    """

    predicted: float | None
    measured: float | None
    repeats: tuple[float, ...]
    repeat_difference: float | None
    error: float | None
    beyond: float | None


@dataclass(frozen=True, slots=True)
class TenantTwin:
    """A tenant's figures: SLA satisfaction, and the median and 99th percentile of latency in ms."""

    tenant: str
    requests: int
    sla: Pair
    p50_ms: Pair
    p99_ms: Pair


@dataclass(frozen=True, slots=True)
class BlockTwin:
    """Blocks of one model and class: profiled seconds on one lane, and the medians of what they took."""

    model: str
    kind: str
    profiled_ms: float
    predicted_ms: float | None
    measured_ms: float | None


@dataclass(frozen=True, slots=True)
class TwinReport:
    """The comparison.

    `drift` is the host's speed during each repeat: for every second the median ratio of block times to
    their profile, then the least, median and largest of these.
    """

    policy: str
    tenants: tuple[TenantTwin, ...]
    blocks: tuple[BlockTwin, ...]
    drift: tuple[tuple[float, float, float], ...]

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as twin.json holds it."""
        return {"format": FORMAT, **asdict(self)}


def compare_twin(predicted: LogTable, measured: Sequence[LogTable]) -> TwinReport:
    """Compare a simulated log with live ones of the same arrivals. Raises ValueError without a live one."""
    if not measured:
        raise ValueError("a twin needs at least one live run")
    expected = summarise(predicted)
    repeats = [summarise(log) for log in measured]
    tenants = []
    for name, scores in expected.tenants.items():
        tenants.append(
            TenantTwin(
                name,
                scores.requests,
                _pair(expected, repeats, name, "sla_satisfaction", relative=False),
                _pair(expected, repeats, name, "p50_ms", relative=True),
                _pair(expected, repeats, name, "p99_ms", relative=True),
            )
        )
    profiles: Mapping[str, Any] = predicted.metadata.get("profiles", {})
    of_prediction = _block_ratios(predicted, profiles)
    of_repeats = [_block_ratios(log, profiles) for log in measured]
    blocks = []
    for model, profile in profiles.items():
        for kind in dict.fromkeys(profile["classes"]):
            chosen = [s for s, c in zip(profile["seconds"], profile["classes"], strict=True) if c == kind]
            profiled_ms = 1e3 * float(np.mean(chosen))
            blocks.append(
                BlockTwin(
                    model,
                    kind,
                    profiled_ms,
                    _scaled(profiled_ms, [of_prediction], model, kind),
                    _scaled(profiled_ms, of_repeats, model, kind),
                )
            )
    return TwinReport(
        expected.policy, tuple(tenants), tuple(blocks), tuple(_drift(ratios) for ratios in of_repeats)
    )


def write_twin(path: Path, report: TwinReport) -> None:
    """Write twin.json; undefined figures are null."""
    write_json(path, report.to_mapping())


def _pair(expected: Summary, repeats: Sequence[Summary], tenant: str, field: str, *, relative: bool) -> Pair:
    predicted = getattr(expected.tenants[tenant], field)
    values = [getattr(repeat.tenants[tenant], field) for repeat in repeats if tenant in repeat.tenants]
    known = tuple(float(value) for value in values if value is not None)
    if not known:
        return Pair(predicted, None, (), None, None, None)
    mean = float(np.mean(known))
    scale = mean if relative and mean > 0.0 else 1.0
    differences = [abs(a - b) / scale for a, b in combinations(known, 2)]
    spread = float(np.quantile(differences, 0.95)) if differences else None
    error = None if predicted is None else abs(predicted - mean) / scale
    beyond = None if error is None or spread is None else max(0.0, error - spread)
    return Pair(predicted, mean, known, spread, error, beyond)


@dataclass(frozen=True, slots=True, eq=False)
class _Ratios:
    """For every block that ran whole on one lane, not in a batch: its end, and its time over the profiled."""

    model: Any
    kind: Any
    end_s: Any
    ratio: Any


def _block_ratios(log: LogTable, profiles: Mapping[str, Any]) -> _Ratios:
    work = stretches_of(log)
    rows = log.where("progress")
    models = log.strings("model")[rows]
    modes = log.strings("mode")[rows]
    whole = (work.share >= 1.0 - 1e-9) & (work.end_block - work.first_block == 1) & (modes == "serial")
    whole &= ~np.isin(work.run, list(batches_of(log)))
    model, kind, end_s, ratio = [], [], [], []
    for at in np.flatnonzero(whole):
        profile = profiles.get(models[at])
        if profile is None:
            continue
        block = int(work.first_block[at])
        model.append(models[at])
        kind.append(profile["classes"][block])
        end_s.append(float(work.end_s[at]))
        ratio.append(float(work.end_s[at] - work.start_s[at]) / profile["seconds"][block])
    return _Ratios(np.array(model), np.array(kind), np.array(end_s), np.array(ratio))


def _scaled(profiled_ms: float, runs: Sequence[_Ratios], model: str, kind: str) -> float | None:
    """The profiled time by the median ratio over those runs; None if no such block ran."""
    ratios = [run.ratio[(run.model == model) & (run.kind == kind)] for run in runs if len(run.ratio)]
    together = np.concatenate(ratios) if ratios else np.empty(0)
    return profiled_ms * float(np.median(together)) if len(together) else None


def _drift(run: _Ratios) -> tuple[float, float, float]:
    if not len(run.ratio):
        return (1.0, 1.0, 1.0)
    seconds = np.floor(run.end_s).astype(int)
    medians = [float(np.median(run.ratio[seconds == second])) for second in np.unique(seconds)]
    return min(medians), float(np.median(medians)), max(medians)
