"""How fast layers are priced: the whole zoo on three accelerators, searched, beside the peers' seconds.

Layers of a kind are priced once per device, as a table does. Then ResNet-50 on four distinct cores, cold in
a process of its own each round, as a table and with the search over loop orders for every layer, and what a
look-up in a table takes. Processor time is beside the seconds that passed, for machines that others use.

    python bench/cost.py --rounds 3
"""

from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from headway.config.hardware import load_hardware
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost import build_table
from headway.cost.breakdown import layer_terms
from headway.cost.oncore import forget
from headway.models import Graph, at_width, load_model, merge, zoo

ACCELERATORS = ("zigzag-tpu-like", "meta-prototype", "edge-tpu")
FOUR_CORES = ("stream-tpu-like", "meta-prototype", "edge-tpu", "ascend")
SEED = "none: nothing is random"


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def graph_of(name: str) -> Graph:
    """A model of the zoo, without its weights."""
    return load_model(zoo.build(name, batch=1, weights=False), name=name)


def four_distinct_cores() -> Device:
    """A device with one core each of four published sorts."""
    cores = [
        {**_plain(name)["cores"][0], "name": f"core-{index}", "count": None}
        for index, name in enumerate(FOUR_CORES)
    ]
    cores = [{key: value for key, value in core.items() if value is not None} for core in cores]
    dram = {"bandwidth": "16 GB/s"}
    return load_hardware({"name": "four", "cores": cores, "link": {"bandwidth": "4 GB/s"}, "dram": dram})


def _plain(name: str) -> dict[str, list[dict[str, object]]]:
    from headway.config.hardware import describe_hardware

    return describe_hardware(name).to_mapping()


def priced(graph: Graph, device: Device) -> float:
    """Seconds to build a table when nothing of it is known yet."""
    forget()
    ready = merge(at_width(graph, device.operand_bytes))
    start = perf_counter()
    build_table(ready, device)
    return perf_counter() - start


def searched(graph: Graph, device: Device) -> float:
    """Seconds to find the best mapping of every layer on every core when nothing is known yet."""
    forget()
    ready = merge(at_width(graph, device.operand_bytes))
    start = perf_counter()
    layer_terms(ready, device)
    return perf_counter() - start


def whole_zoo(names: list[str]) -> None:
    """Layers per second, per accelerator."""
    graphs = []
    for name in names:
        try:
            graphs.append(graph_of(name))
        except HeadwayError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
    print(f"{len(graphs)} models of the zoo, every table with all stacks and band heights:\n")
    print("| accelerator | layers | seconds | layers per second |")
    print("| --- | --- | --- | --- |")
    for accelerator in ACCELERATORS:
        device = load_hardware(accelerator)
        layers = sum(len(graph.layers) for graph in graphs)
        seconds = sum(priced(graph, device) for graph in graphs)
        print(f"| {accelerator} | {layers} | {seconds:.2f} | {layers / seconds:,.0f} |")
    print("\nZigZag 3.9.1 takes 3.5 to 20 s per layer, Stream 6 to 49 s per chain of four layers.\n")


def resnet50(rounds: int) -> None:
    """A cold table on four distinct cores, and look-ups."""
    print(f"ResNet-50 on four distinct cores ({', '.join(FOUR_CORES)}), cold, median of {rounds}:\n")
    print("| | seconds | of processor time |")
    print("| --- | --- | --- |")
    for name, option in (
        ("table with all stacks", "--one-table"),
        ("search over loop orders", "--one-search"),
    ):
        command = [sys.executable, __file__, option]
        runs = [
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            for _ in range(rounds)
        ]
        passed, used = (median(float(run[column]) for run in runs) for column in (0, 1))
        print(f"| {name} | {passed:.2f} | {used:.2f} |")
    print("\n(Target: under 1 s with search.)\n")
    table = build_table(merge(at_width(graph_of("resnet50"), 1.0)), four_distinct_cores())
    calls, start = 200_000, perf_counter()
    for number in range(calls):
        table.serial_s[number % table.blocks][number % 4]
    elapsed = (perf_counter() - start) / calls
    print(f"A look-up of a layer's seconds on a core, loop included: {elapsed * 1e9:.0f} ns")
    print("(target under a microsecond).")


def main() -> None:
    """Print the report in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="cold tables of ResNet-50")
    parser.add_argument("--models", default=",".join(zoo.names()), help="comma-separated; all by default")
    parser.add_argument("--one-table", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one-search", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_table or arguments.one_search:
        graph, device = graph_of("resnet50"), four_distinct_cores()
        start = process_time()
        passed = (priced if arguments.one_table else searched)(graph, device)
        print(passed, process_time() - start)
        return
    print(f"Machine: {processor()}, {platform.system()}, Python {platform.python_version()}.")
    print(f"Date: {datetime.date.today().isoformat()}. Seed: {SEED}.\n")
    whole_zoo(arguments.models.split(","))
    resnet50(arguments.rounds)


if __name__ == "__main__":
    main()
