"""Evaluating overlap predictors on measured and on simulated pairs, for the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from headway.predict.assessment import assess
from headway.predict.pairs import Pairs, read_pairs
from headway.predict.pressures import processor_limits
from headway.predict.splits import shipped_splits
from headway.record.predictor_outputs import ErrorRow, LearntRow, SampleTables
from headway.wiring.calibration import known_latency
from headway.wiring.simulated_pairs import RULES, simulated_pairs

LANES: Final = 2
"""Of the machine on which pairs were measured, one for each member."""


def evaluate_predictors(
    measured: Sequence[Path],
    gpu: str | None,
    count: int,
    seed: int,
    on_step: Callable[[str], None] = lambda words: None,
) -> list[SampleTables]:
    """Assess every predictor on every sample.

    Args:
        measured: files of `bench/overlap_measure.py`, a sample each.
        gpu: of the simulated samples, one for each of RULES; None for none.
        count: pairs in a simulated sample.
        seed: of all draws.
        on_step: told what is being done.

    Raises:
        HeadwayError: a file that is none, an unknown GPU, and without what training needs.
    """
    splits = shipped_splits()
    samples: dict[str, Pairs] = {}
    for path in measured:
        samples[path.name] = read_pairs(path, processor_limits(known_latency()[0], LANES))
    for rule in RULES if gpu is not None else ():
        assert gpu is not None
        samples[f"simulated {gpu}, {rule} rule"] = simulated_pairs(rule, gpu, count, splits, seed, on_step)
    found = []
    for name, pairs in samples.items():
        assessed = assess(name, pairs, splits, seed, on_step)
        found.append(
            SampleTables(
                name,
                assessed.pairs,
                assessed.median_loss,
                [ErrorRow(**asdict(score)) for score in assessed.scores],
                [ErrorRow(**asdict(score)) for score in assessed.by_fold],
                [LearntRow(**asdict(learnt)) for learnt in assessed.curve],
                {cost.predictor: cost.eight_us for cost in assessed.costs},
            )
        )
    return found
