"""What running requests together is worth: SLA satisfaction with and without, on a simulated GPU.

    python bench/batching.py --loads 0.6,1.0,1.3,1.6 --seeds 101,102 --duration 0.5

Times of batches are predicted for the GPU; arrivals and noise are the same with and without batches. A load
of 1 is what the streams can do one request after the other.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean

import yaml

from headway.config import Scenario
from headway.record.columns import batches_of
from headway.record.metrics import summarise
from headway.wiring import prepare, simulate

MODELS = ("resnet50", "mobilenet_v2", "bert_base")


def scenario(load: float, seed: int, duration_s: float, factor: float, most: int) -> dict[str, object]:
    """A tenant for each model, whose deadline is a multiple of its latency alone."""
    batching = {"batching": {"max_size": most}} if most > 1 else {}
    return {
        "name": "batching",
        "hardware": "gpu-streams",
        "duration": f"{duration_s} s",
        "load": load,
        "seed": seed,
        "tenants": [
            {
                "name": model.replace("_", "-"),
                "model": model,
                "sla": {"isolated": factor},
                "arrivals": {"process": "poisson", "rate": "100 /s"},
                **batching,
            }
            for model in MODELS
        ],
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", default="0.6,1.0,1.3,1.6")
    parser.add_argument("--seeds", default="101,102")
    parser.add_argument("--duration", type=float, default=0.5)
    parser.add_argument("--factors", default="3,6")
    parser.add_argument("--sizes", default="1,8")
    parser.add_argument("--policies", default="edf:planned,headway")
    chosen = parser.parse_args()
    print("| SLA, times alone | load | policy | largest batch | in time, % | runs per request |")
    print("| --- | --- | --- | --- | --- | --- |")
    for factor in map(float, chosen.factors.split(",")):
        for load in map(float, chosen.loads.split(",")):
            for most in map(int, chosen.sizes.split(",")):
                figures: dict[str, list[tuple[float, float]]] = {}
                for seed in map(int, chosen.seeds.split(",")):
                    data = scenario(load, seed, chosen.duration, factor, most)
                    with tempfile.TemporaryDirectory() as folder:
                        path = Path(folder) / "scenario.yaml"
                        path.write_text(yaml.safe_dump(data))
                        prepared = prepare(Scenario.load(path))
                    for policy in chosen.policies.split(","):
                        log = simulate(prepared, policy)
                        total = summarise(log).total
                        batches = batches_of(log)
                        runs = log.integers("run")[log.where("start")]
                        single = len(set(runs.tolist())) - len(batches)
                        started = single + sum(map(len, batches.values()))
                        per_request = (single + len(batches)) / max(1, started)
                        figures.setdefault(policy, []).append((total.sla_satisfaction or 0.0, per_request))
                for policy, rows in figures.items():
                    in_time = 100 * mean(row[0] for row in rows)
                    per_request = mean(row[1] for row in rows)
                    print(
                        f"| {factor:g} | {load:g} | {policy} | {most} | {in_time:.1f} | {per_request:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
