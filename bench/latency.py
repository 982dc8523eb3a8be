"""Latency predicted before any run against measured: whole models of the zoo and their blocks.

Parameters come from `headway calibrate`, hence from made-up networks alone: no model of the zoo, nor of its
family, is learned from. Each model is cut as the prediction says; its chain is then run as at intake (after
a rest, with caches full of other things), with the whole model in turns. Compared are the predicted and the
median measured time of the whole, and of each block; baselines are the roofline with one factor for all
models, and the estimate that needs no calibration, scaled likewise. Both factors are the best ones in
hindsight, which favours the baselines.

    headway calibrate && python bench/latency.py --threads 1

With `--processor-time` the whole model's least processor time on one thread stands in for its time, and
blocks are left out: on a machine that others use it is nearer to the truth.
"""

from __future__ import annotations

import argparse
import datetime
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from time import thread_time
from typing import Any

import numpy as np

from headway.core.errors import HeadwayError
from headway.live.processors import available, machine, runtime
from headway.live.rehearsal import Rehearsals, measure
from headway.models import zoo
from headway.models.boundary_cost import boundary_cost
from headway.models.node_times import estimated_node_s
from headway.models.node_work import node_works
from headway.models.prepared import prepare
from headway.models.split import split
from headway.predict.latency import LatencyModel
from headway.predict.latency_features import roof_s
from headway.wiring.calibration import known_latency


def compared(name: str, latency: LatencyModel, threads: int, rounds: int, seed: int) -> dict[str, Any]:
    """Predicted and measured seconds of one model."""
    prepared = prepare(zoo.build(name, seed=seed), dims={})
    works = node_works(prepared)
    width = latency.width(threads)
    chain = split(
        prepared,
        threads=threads,
        node_s=latency.node_s(works, threads),
        cost=boundary_cost(threads),
        verify=False,
    )
    whole = split(prepared, (), verify=False)
    found = measure(chain, whole, available()[:threads], prepared.sample(seed), rounds)
    (total,) = latency.blocks(works, threads)
    blocks = latency.blocks(works, threads, chain.positions)
    roof = roof_s(works, width.flops_s, width.bandwidth_bytes_s, width.launch_s)
    measured = [timing.median_s for timing in found.blocks]
    return {
        "name": name,
        "measured_s": found.whole.median_s,
        "predicted": total,
        "block_errors": [
            predicted.mean_s / actual - 1.0 for predicted, actual in zip(blocks, measured, strict=True)
        ],
        "blocks_inside": [
            predicted.low_s <= actual <= predicted.high_s
            for predicted, actual in zip(blocks, measured, strict=True)
        ],
        "roof_s": float(sum(seconds for work, seconds in zip(works, roof, strict=True) if not work.view)),
        "estimate_s": sum(estimated_node_s(prepared, threads, works)),
        "unsteady": found.unsteady,
    }


def by_processor_time(name: str, latency: LatencyModel, runs: int, seed: int) -> dict[str, Any]:
    """As `compared`, on one thread, with the least time that its processor spent on it; without blocks."""
    prepared = prepare(zoo.build(name, seed=seed), dims={})
    works = node_works(prepared)
    width = latency.width(1)
    times = []
    whole = split(prepared, (), verify=False)
    with Rehearsals(whole, available()[:1], prepared.sample(seed)) as rehearsals:
        rehearsals.run()
        for _ in range(runs):
            before = thread_time()
            rehearsals.run()
            times.append(thread_time() - before)
    roof = roof_s(works, width.flops_s, width.bandwidth_bytes_s, width.launch_s)
    return {
        "name": name,
        "measured_s": min(times),
        "predicted": latency.blocks(works, 1)[0],
        "block_errors": [],
        "blocks_inside": [],
        "roof_s": float(sum(seconds for work, seconds in zip(works, roof, strict=True) if not work.view)),
        "estimate_s": sum(estimated_node_s(prepared, 1, works)),
        "unsteady": "",
    }


def scaled_errors(rows: Sequence[dict[str, Any]], key: str) -> list[float]:
    """Absolute relative errors of predictions times their best common factor: the median of ratios."""
    ratios = np.array([row[key] / row["measured_s"] for row in rows])
    return [float(abs(ratio / np.median(ratios) - 1.0)) for ratio in ratios]


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="", help="names, comma-separated; all of the zoo by default")
    parser.add_argument("--threads", type=int, default=1, help="of the lane")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each model at least")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs")
    parser.add_argument("--processor-time", action="store_true", help="of the whole, on one thread")
    parser.add_argument("--parameters", type=Path, help="a file of `headway calibrate --out`")
    options = parser.parse_args()
    if options.processor_time and options.threads != 1:
        raise SystemExit("--processor-time: accepted with --threads 1")
    names = options.models.split(",") if options.models else list(zoo.names())
    try:
        if options.parameters is None:
            latency, basis = known_latency()
        else:
            latency = LatencyModel.from_json(options.parameters.read_bytes(), str(options.parameters))
            basis = f"parameters of {options.parameters.name}"
        print(
            f"{machine()}, {os.cpu_count()} processors; {runtime()}; {options.threads} threads; {basis}; "
            f"seed {options.seed}; {datetime.date.today().isoformat()}\n"
        )
        print(
            "| model | measured ms | predicted ms | low | high | error % | blocks | blocks' error % | busy |"
        )
        print("|" + " --- |" * 9, flush=True)
        rows = []
        for name in names:
            if options.processor_time:
                row = by_processor_time(name, latency, options.rounds, options.seed)
            else:
                row = compared(name, latency, options.threads, options.rounds, options.seed)
            row["predicted_s"] = row["predicted"].mean_s
            rows.append(row)
            total = row["predicted"]
            error = total.mean_s / row["measured_s"] - 1.0
            of_blocks = [abs(one) for one in row["block_errors"]]
            block_error = f"{100 * mean(of_blocks):.1f}" if of_blocks else ""
            busy = "yes" if row["unsteady"] else ""
            print(
                f"| {name} | {1e3 * row['measured_s']:.2f} | {1e3 * total.mean_s:.2f} | "
                f"{1e3 * total.low_s:.2f} | {1e3 * total.high_s:.2f} | {100 * error:+.1f} | "
                f"{len(row['block_errors'])} | {block_error} | {busy} |",
                flush=True,
            )
    except HeadwayError as error:
        raise SystemExit(str(error)) from error
    summary(rows)


def summary(rows: Sequence[dict[str, Any]]) -> None:
    """Errors over all models, and those of the baselines."""
    errors = [abs(row["predicted"].mean_s / row["measured_s"] - 1.0) for row in rows]
    blocks = [abs(error) for row in rows for error in row["block_errors"]]
    inside = [row["predicted"].low_s <= row["measured_s"] <= row["predicted"].high_s for row in rows]
    print("\n| over models | mean error % | median % | worst % | in the interval % |")
    print("|" + " --- |" * 5)
    lines = (
        ("whole models", errors, inside),
        ("blocks", blocks, [one for row in rows for one in row["blocks_inside"]]),
        ("whole models, times one factor", scaled_errors(rows, "predicted_s"), None),
        ("roofline times one factor", scaled_errors(rows, "roof_s"), None),
        ("estimate without calibration, times one factor", scaled_errors(rows, "estimate_s"), None),
    )
    for label, values, within in lines:
        if not values:
            continue
        share = "" if within is None else f"{100 * mean(within):.0f}"
        print(
            f"| {label} | {100 * mean(values):.1f} | {100 * median(values):.1f} | {100 * max(values):.1f} | "
            f"{share} |"
        )


if __name__ == "__main__":
    main()
