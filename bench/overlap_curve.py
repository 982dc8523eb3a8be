"""How well the time of two models together is believed on a simulated GPU after some overlaps were seen.

Six models of the zoo on two streams; the true losses are the fluid base and a hidden part with a standard
deviation of 0.15. For all pairs that start together the believed makespan is compared with the true one,
after 0, 5, ... overlaps of a run under fcfs, over four seeds. Prints a markdown table.

    .venv/bin/python bench/overlap_curve.py [--requests 1500] [--seeds 4]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from datetime import date
from itertools import combinations_with_replacement

import numpy as np

from headway import wiring
from headway.config import Scenario
from headway.core.messages import Dispatch
from headway.core.protocols import LogRow
from headway.policies import make
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.overlap import KnownOverlap
from headway.testing import toy_request
from headway.wiring.beliefs import belief, true_loss

MODELS = ("resnet18", "mobilenet_v2", "bert_small", "resnet50", "vgg16", "densenet121")
MARKS = (0, 5, 20, 100, 500)
LEARNING, TRAINED = ("default", "no-fluid"), ("skadi", "abacus")
PAIRS = tuple(combinations_with_replacement(MODELS, 2))


def scenario(seed: int, requests: int) -> Scenario:
    """All models at the same rate, at a load of 0.8."""
    tenants = [
        {
            "name": model.replace("_", "-"),
            "model": model,
            "sla": {"isolated": 5},
            "arrivals": {"process": "poisson", "rate": "100 /s"},
        }
        for model in MODELS
    ]
    return Scenario.from_mapping(
        {
            "name": "curve",
            "seed": seed,
            "hardware": {"preset": "gpu-streams", "overlap_deviation": 0.15},
            "requests": requests,
            "load": 0.8,
            "noise": {"solo_std": 0.02},
            "tenants": tenants,
        }
    )


def makespans(estimator: LaneEstimator, prepared: wiring.Prepared) -> list[tuple[float, float]]:
    """Mean and upper seconds of each pair that starts together."""
    cores, found = prepared.device.cores, []
    for pair in PAIRS:
        one, other = (
            toy_request(at, model, prepared.tables, arrival_s=0.0, deadline_s=1.0)
            for at, model in enumerate(pair)
        )
        first, second = (
            Dispatch((request,), range(request.blocks), (core,))
            for request, core in zip((one, other), cores, strict=True)
        )
        each = estimator.estimate([first], [second], [0.0], 0.0)[0]
        found.append((max(each.mean_s, *each.others_end_s), max(each.upper_s, *each.others_upper_s)))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    wrong, covered = defaultdict(list), defaultdict(list)
    for seed in range(arguments.seeds):
        prepared = wiring.prepare(scenario(seed, arguments.requests))
        rows = [LogRow(**row) for row in wiring.simulate(prepared, "fcfs").table.to_pylist()]
        known = KnownOverlap(true_loss(prepared))
        truth = makespans(
            LaneEstimator(prepared.device, prepared.tables, known, learns=False, margins=False), prepared
        )
        for name in (*LEARNING, *TRAINED):
            policy = make("fcfs")
            policy.estimator = name
            estimator, _ = belief(prepared, policy)
            assert isinstance(estimator, LaneEstimator)
            marks = list(MARKS if name in LEARNING else MARKS[:1])
            unread = iter(rows)
            while marks:
                seen = sum(estimator.calibration.state()["tiers"]["own"].values())
                if seen >= marks[0]:
                    found = zip(makespans(estimator, prepared), truth, strict=True)
                    for (mean_s, upper_s), (true_s, _) in found:
                        wrong[name, marks[0]].append(abs(mean_s / true_s - 1.0))
                        covered[name, marks[0]].append(upper_s >= true_s)
                    del marks[0]
                row = next(unread, None)
                if row is None:
                    break
                estimator.observe(row)
    print(f"{arguments.seeds} seeds, {len(PAIRS)} pairs, {date.today()}\n")
    print("| estimator | overlaps seen | MAPE | p95 | within the upper bound |")
    print("| --- | --- | --- | --- | --- |")
    for (name, mark), values in wrong.items():
        seen_words = str(mark) if name in LEARNING else "trained on all pairs"
        size, worst = 100 * np.mean(values), 100 * np.percentile(values, 95)
        within = 100 * np.mean(covered[name, mark])
        print(f"| {name} | {seen_words} | {size:.1f} % | {worst:.1f} % | {within:.0f} % |")


if __name__ == "__main__":
    main()
