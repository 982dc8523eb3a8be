"""Whole against split: what it costs to run the zoo's models block by block.

Each model runs whole (one ONNX Runtime session, its own optimisations, bound buffers), as chains of 2, 4, 8
and 16 blocks, and as the chain that intake makes and lanes run, in turns, so that drift of the machine meets
all alike. Reported is the median over rounds of the ratio of a chain's time to the whole's in the same round,
and for intake's chain the quartiles, too. All sessions have the same number of threads, spinning off, and
threads stay on processors of their own, as they do on lanes: the caller's on the first, each session's others
on the next. With `--unpinned` the system places them, and often wakes the threads of two sessions on one
processor. With `--processor-time` times are those that the process had the processors, which says more on a
machine that others use, but not what waiting costs.

    python bench/split.py --threads 2 --seconds 5 --models resnet50,bert_base
    python bench/split.py --minutes 12

`--minutes` is for all models together; short ones are then measured more often than long ones.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import numpy as np
import onnxruntime

from headway.core.errors import HeadwayError
from headway.live.processors import available, staying_on
from headway.live.profiler import take_in
from headway.models import zoo
from headway.models.boundary_cost import boundary_cost
from headway.models.even import BlockLimits
from headway.models.node_times import profiled_node_s
from headway.models.prepared import PreparedModel, prepare
from headway.models.recomposition import recompose
from headway.models.runtime_session import SessionSettings
from headway.models.split import split

Places = tuple[Sequence[int], Sequence[int]]
"""Processors of the caller's thread, and of a session's others."""

COUNTS = (2, 4, 8, 16)
SERVED = "served"
TARGET_MEDIAN, TARGET_WORST = 1.03, 1.06
FEWEST_ROUNDS = 5
FIRST_SETUP_S = 5.0
MOST_SECONDS = 12.0


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def places(threads: int, pinned: bool) -> Places:
    """Processors of the caller's thread, and of a session's others; none where the system shall choose."""
    there = available()[:threads]
    return (there[:1], there[1:]) if pinned else ((), ())


def whole_run(prepared: PreparedModel, inputs: dict[str, Any], threads: int) -> Callable[[], None]:
    """A call that runs the whole model once on bound buffers."""
    session = prepared.whole.open(SessionSettings(threads=threads))
    binding = session.io_binding()
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    outputs = {}
    for output in session.get_outputs():
        array = np.empty(output.shape, dtype=np.float32)
        outputs[output.name] = (array, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        binding.bind_ortvalue_output(output.name, outputs[output.name][1])

    def run(keep: object = (values, outputs)) -> None:
        session.run_with_iobinding(binding)

    return run


def measure(options: argparse.Namespace, name: str, seconds: float, pinned: Places) -> dict[str, Any]:
    """Ratios of all chains of one model; `pinned` has processors of the caller and of sessions' threads."""
    threads, seed = options.threads, options.seed
    own, others = pinned
    model = zoo.build(name, seed=seed)
    intake = take_in(model, {threads: available()[:threads]}, seed=seed)  # keeps its threads in place itself
    prepared = prepare(model)
    inputs = prepared.sample(seed)
    with staying_on(own):
        node_s = profiled_node_s(prepared, threads, inputs=inputs)
    total_s = sum(node_s)
    chains = {SERVED: intake.split}
    for count in COUNTS:
        limits = BlockLimits(target_s=total_s / count, longest_s=total_s, overhead_share=1.0)
        chains[str(count)] = split(prepared, node_s=node_s, threads=threads, limits=limits)
    with staying_on(own):
        checked = recompose(chains[SERVED], inputs, threads=threads)
        with staying_on(others):
            runs: dict[str, Callable[[], None]] = {"whole": whole_run(prepared, inputs, threads)}
            opened = {label: chain.open(threads) for label, chain in chains.items()}
        for label, chain in chains.items():
            buffers = chain.bind(inputs)
            runs[label] = lambda sessions=opened[label], buffers=buffers: sessions.run(buffers)
        times = interleaved(runs, seconds, process_time if options.processor_time else perf_counter)
    alone_s = intake.profile.seconds(threads)
    return {
        "whole_ms": 1e3 * median(times["whole"]),
        "ratios": {label: ratios_of(times, label) for label in chains},
        "blocks": {label: len(chain.blocks) for label, chain in chains.items()},
        "longest_ms": 1e3 * max(alone_s),
        "rounds": len(times["whole"]),
        "private_mb": (opened[SERVED].private_bytes or 0) / 1e6,
        "buffer_mb": chains[SERVED].plan.total_bytes / 1e6,
        "bit_equal": checked.bit_equal,
        "intake_s": intake.profile.intake_s,
    }


def interleaved(
    runs: dict[str, Callable[[], None]], seconds: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Times of all runs in turns, after two of each to warm up, for that long or FEWEST_ROUNDS."""
    for run in runs.values():
        run()
        run()
    times: dict[str, list[float]] = {label: [] for label in runs}
    labels = list(runs)
    ends = perf_counter() + seconds
    gc.disable()
    while perf_counter() < ends or len(times["whole"]) < FEWEST_ROUNDS:
        for label in labels:
            started = clock()
            runs[label]()
            times[label].append(clock() - started)
        labels = [*labels[1:], labels[0]]
    gc.enable()
    return times


def ratios_of(times: dict[str, list[float]], label: str) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile over rounds of a chain's time over the whole's."""
    low, middle, high = quantiles(t / w for t, w in zip(times[label], times["whole"], strict=True))
    return low, middle, high


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="", help="names, comma-separated; all of the zoo by default")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of every session")
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring for each model")
    parser.add_argument("--minutes", type=float, help="of everything, in place of --seconds")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs")
    parser.add_argument("--unpinned", action="store_true", help="let the system place threads")
    parser.add_argument("--processor-time", action="store_true", help="instead of the wall clock's")
    options = parser.parse_args()
    names = options.models.split(",") if options.models else list(zoo.names())
    own, others = places(options.threads, not options.unpinned)
    if own and len(own) + len(others) < options.threads:
        raise SystemExit(f"--threads {options.threads}: this process may use {len(available())} processors")
    boundary_cost(options.threads)
    heading(options)
    report(options, names, (own, others))


def heading(options: argparse.Namespace) -> None:
    """Where and how it was measured."""
    print(
        f"{processor()}, {os.cpu_count()} cores, {options.threads} threads a session, "
        f"{'unpinned' if options.unpinned else 'pinned'}; "
        f"ONNX Runtime {onnxruntime.__version__}; seed {options.seed}; {datetime.date.today().isoformat()}\n"
    )


def report(options: argparse.Namespace, names: Sequence[str], pinned: Places) -> None:
    """Measure all models and print the table, row by row."""
    clock = "processor time" if options.processor_time else "time"
    print(
        f"Ratio of a chain's {clock} to the whole model's; blocks in brackets where not as many as asked.\n"
    )
    heads = ["model", "whole ms", *(f"{count} blocks" for count in COUNTS), "served", "quartiles", "blocks"]
    heads += ["longest ms", "private MB", "buffers MB", "bit-equal", "rounds", "intake s"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    served: dict[str, float] = {}
    began_s, measured_s = perf_counter(), 0.0
    for done, name in enumerate(names):
        seconds = options.seconds
        if options.minutes is not None:
            spent_s = perf_counter() - began_s
            setup_s = (spent_s - measured_s) / done if done else FIRST_SETUP_S
            left_s = (60.0 * options.minutes - spent_s) / (len(names) - done)
            seconds = min(MOST_SECONDS, max(0.0, left_s - setup_s))
        try:
            found = measure(options, name, seconds, pinned)
        except HeadwayError as error:
            raise SystemExit(str(error)) from error
        measured_s += seconds
        cells = [name, f"{found['whole_ms']:.2f}"]
        for count in COUNTS:
            blocks = found["blocks"][str(count)]
            cells.append(
                f"{found['ratios'][str(count)][1]:.3f}" + ("" if blocks == count else f" ({blocks})")
            )
        low, middle, high = found["ratios"][SERVED]
        cells += [f"{middle:.3f}", f"{low:.3f} to {high:.3f}", str(found["blocks"][SERVED])]
        cells += [f"{found['longest_ms']:.2f}", f"{found['private_mb']:.1f}", f"{found['buffer_mb']:.1f}"]
        cells += ["yes" if found["bit_equal"] else "no", str(found["rounds"]), f"{found['intake_s']:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)
        served[name] = middle
    worst = max(served, key=lambda name: served[name])
    print(
        f"\nAs served: median {median(served.values()):.3f} (target {TARGET_MEDIAN}), "
        f"worst {served[worst]:.3f} for {worst} (target {TARGET_WORST})."
    )


if __name__ == "__main__":
    main()
