"""Whole against split: what it costs to run the zoo's models block by block.

Each model runs whole (one ONNX Runtime session, its own optimisations, bound buffers) and as chains of 2,
4, 8 and 16 blocks and of blocks of the default size, in turns, so that drift of the machine meets all
alike. Reported is the median over rounds of the ratio of a chain's time to the whole's in the same round.
All sessions have the same number of threads, spinning off, and threads stay on processors of their own, as
they do on lanes: the caller's on the first, each session's others on the next. With `--unpinned` the system
places them, and often wakes the threads of two sessions on one processor.

    python bench/split.py --threads 2 --seconds 5 --models resnet50,bert_base

With `--intake` the chain is the one that intake would run on lanes of that many threads, which has longer
blocks where boundaries cost more than they may; it alone is then compared with the whole.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
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
TARGET_MEDIAN, TARGET_WORST = 1.03, 1.06
FEWEST_ROUNDS = 9


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


def measure(name: str, threads: int, seconds: float, seed: int, others: Sequence[int]) -> dict[str, Any]:
    """Ratios of all chains of one model; `others` are the processors of the sessions' own threads."""
    prepared = prepare(zoo.build(name, seed=seed))
    inputs = prepared.sample(seed)
    node_s = profiled_node_s(prepared, threads, inputs=inputs)
    total_s = sum(node_s)
    chains = {}
    for count in COUNTS:
        limits = BlockLimits(target_s=total_s / count, longest_s=total_s, overhead_share=1.0)
        chains[str(count)] = split(prepared, node_s=node_s, threads=threads, limits=limits)
    chains["default"] = split(prepared, node_s=node_s, threads=threads)
    checked = recompose(chains["default"], inputs, threads=threads)
    with staying_on(others):
        runs: dict[str, Callable[[], None]] = {"whole": whole_run(prepared, inputs, threads)}
        opened = {label: chain.open(threads) for label, chain in chains.items()}
    for label, chain in chains.items():
        buffers = chain.bind(inputs)
        runs[label] = lambda sessions=opened[label], buffers=buffers: sessions.run(buffers)
    times = interleaved(runs, seconds)
    ratios = {label: ratio_of(times, label) for label in chains}
    return {
        "whole_ms": 1e3 * median(times["whole"]),
        "ratios": ratios,
        "blocks": {label: len(chain.blocks) for label, chain in chains.items()},
        "rounds": len(times["whole"]),
        "private_mb": (opened["default"].private_bytes or 0) / 1e6,
        "buffer_mb": chains["default"].plan.total_bytes / 1e6,
        "bit_equal": checked.bit_equal,
    }


def measure_intake(options: argparse.Namespace, name: str, pinned: Places) -> dict[str, Any]:
    """The chain that intake runs on a lane, beside the whole."""
    threads, seed = options.threads, options.seed
    lane = available()[:threads]
    own, others = pinned
    intake = take_in(zoo.build(name, seed=seed), {threads: lane}, seed=seed)
    chain, inputs, profile = intake.split, dict(intake.inputs), intake.profile
    prepared = prepare(zoo.build(name, seed=seed))
    with staying_on(others):
        whole = whole_run(prepared, inputs, threads)
        opened = chain.open(threads)
    buffers = chain.bind(inputs)
    with staying_on(own):
        times = interleaved({"whole": whole, "intake": lambda: opened.run(buffers)}, options.seconds)
    alone_s = profile.seconds(threads)
    return {
        "whole_ms": 1e3 * median(times["whole"]),
        "ratio": ratio_of(times, "intake"),
        "blocks": len(chain.blocks),
        "mean_ms": 1e3 * sum(alone_s) / len(alone_s),
        "longest_ms": 1e3 * max(alone_s),
        "reported": profile.boundary_share[threads],
        "intake_s": profile.intake_s,
        "rounds": len(times["whole"]),
    }


def report_intake(options: argparse.Namespace, names: Sequence[str], pinned: Places) -> None:
    """Measure what intake runs of all models and print the table."""
    print("Ratio of the time of the chain that intake makes to the whole model's.\n")
    heads = ["model", "whole ms", "intake's chain", "blocks", "mean block ms", "longest block ms"]
    heads += ["boundaries by the profile", "intake s", "rounds"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    ratios = []
    for name in names:
        try:
            found = measure_intake(options, name, pinned)
        except HeadwayError as error:
            raise SystemExit(str(error)) from error
        print(
            f"| {name} | {found['whole_ms']:.2f} | {found['ratio']:.3f} | {found['blocks']} | "
            f"{found['mean_ms']:.2f} | {found['longest_ms']:.2f} | {found['reported']:+.3f} | "
            f"{found['intake_s']:.2f} | {found['rounds']} |",
            flush=True,
        )
        ratios.append(found["ratio"])
    print(
        f"\nWhat intake runs: median {median(ratios):.3f} (target {TARGET_MEDIAN}), "
        f"worst {max(ratios):.3f} (target {TARGET_WORST})."
    )


def interleaved(runs: dict[str, Callable[[], None]], seconds: float) -> dict[str, list[float]]:
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
            started = perf_counter()
            runs[label]()
            times[label].append(perf_counter() - started)
        labels = [*labels[1:], labels[0]]
    gc.enable()
    return times


def ratio_of(times: dict[str, list[float]], label: str) -> float:
    """The median over rounds of a chain's time over the whole's."""
    return median(t / w for t, w in zip(times[label], times["whole"], strict=True))


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="", help="names, comma-separated; all of the zoo by default")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of every session")
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring for each model")
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs")
    parser.add_argument("--intake", action="store_true", help="compare what intake really runs")
    parser.add_argument("--unpinned", action="store_true", help="let the system place threads")
    options = parser.parse_args()
    names = options.models.split(",") if options.models else list(zoo.names())
    own, others = places(options.threads, not options.unpinned)
    if own and len(own) + len(others) < options.threads:
        raise SystemExit(f"--threads {options.threads}: this process may use {len(available())} processors")
    boundary_cost(options.threads)
    heading(options)
    if options.intake:
        report_intake(options, names, (own, others))  # intake keeps its threads in place itself
        return
    with staying_on(own):
        report(options, names, others)


def heading(options: argparse.Namespace) -> None:
    """Where and how it was measured."""
    print(
        f"{processor()}, {os.cpu_count()} cores, {options.threads} threads a session, "
        f"{'unpinned' if options.unpinned else 'pinned'}; "
        f"ONNX Runtime {onnxruntime.__version__}; seed {options.seed}; {datetime.date.today().isoformat()}\n"
    )


def report(options: argparse.Namespace, names: Sequence[str], others: Sequence[int]) -> None:
    """Measure all models and print the table."""
    print("Ratio of a chain's time to the whole model's; blocks in brackets where not as many as asked.\n")
    heads = ["model", "whole ms", *(f"{count} blocks" for count in COUNTS), "default size", "blocks"]
    heads += ["private MB", "buffers MB", "bit-equal", "rounds"]
    print("| " + " | ".join(heads) + " |")
    print("|" + " --- |" * len(heads), flush=True)
    defaults = []
    for name in names:
        try:
            found = measure(name, options.threads, options.seconds, options.seed, others)
        except HeadwayError as error:
            raise SystemExit(str(error)) from error
        cells = [name, f"{found['whole_ms']:.2f}"]
        for count in COUNTS:
            blocks = found["blocks"][str(count)]
            cells.append(f"{found['ratios'][str(count)]:.3f}" + ("" if blocks == count else f" ({blocks})"))
        cells += [f"{found['ratios']['default']:.3f}", str(found["blocks"]["default"])]
        cells += [f"{found['private_mb']:.1f}", f"{found['buffer_mb']:.1f}"]
        cells += ["yes" if found["bit_equal"] else "no", str(found["rounds"])]
        print("| " + " | ".join(cells) + " |", flush=True)
        defaults.append(found["ratios"]["default"])
    print(
        f"\nAt the default size: median {median(defaults):.3f} (target {TARGET_MEDIAN}), "
        f"worst {max(defaults):.3f} (target {TARGET_WORST})."
    )


if __name__ == "__main__":
    main()
