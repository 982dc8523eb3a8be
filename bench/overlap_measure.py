"""Measures pairs of synthetic networks on two lanes of this machine: what the overlap predictor learns from.

Every network runs alone, beside the three probes, and beside another network: in turns, so that drift of the
machine touches all alike: alone, together, alone again, three rounds. Both members of a pair run as often as
makes their times alone about equal, or shorter by a drawn share; the overlap loss is w = (T - Tmax) / (Tsum -
Tmax). Rounds are kept one by one, so that their spread tells the noise floor. Results are lines of JSON,
written as they come: the same command goes on where it was interrupted, with other pairs.

    .venv/bin/python bench/overlap_measure.py OUT.jsonl [--minutes 10] [--networks 140] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime

from headway.core.errors import HeadwayError
from headway.live.probes import probed_slowdowns
from headway.live.processors import available, machine, runtime, staying_on
from headway.models.block_work import block_work
from headway.models.node_times import estimated_node_s
from headway.models.node_work import node_works
from headway.models.prepared import prepare
from headway.models.runtime_session import SessionSettings, session_options
from headway.models.split import split
from headway.predict.group import operator_counts
from headway.predict.synthetic import FAMILIES, synthetic_network

STRETCH_S = 12e-3  # of one member of a pair, alone
SHORTEST_S, LONGEST_S = 50e-6, 60e-3  # of one run of a network that takes part
ROUNDS = 3


class Network:
    """A synthetic network with a session of one thread and bound tensors."""

    def __init__(self, number: int, seed: int) -> None:
        prepared = prepare(synthetic_network(number, seed=seed))
        works = node_works(prepared)
        work = block_work(works, estimated_node_s(prepared, 1, works))
        self.number = number
        self.family = FAMILIES[number % len(FAMILIES)]
        self.work: dict[str, Any] = {
            "flops": work.flops,
            "moved_bytes": work.moved_bytes,
            "kernels": work.kernels,
            "footprint_bytes": work.footprint_bytes,
            "output_elements": work.output_elements,
        }
        operators = [each.op for each in works]
        self.work["counts"] = operator_counts(operators)
        model = synthetic_network(number, seed=seed)
        options = session_options(SessionSettings(shared_arena=True))
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.binding = self.session.io_binding()
        for name, value in prepared.sample().items():
            self.binding.bind_ortvalue_input(
                name, onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value))
            )
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name, "cpu")
        self.alone_s = 0.0
        processors = available()
        chain = split(prepared, (), verify=False)
        probed = probed_slowdowns(chain, [work], prepared.sample(), processors[:1], processors[1:2])
        self.work["slowdowns"] = probed[0]

    def run(self, times: int) -> None:
        """Run it that often, one after the other."""
        for _ in range(times):
            self.session.run_with_iobinding(self.binding, None)


class Lane(threading.Thread):
    """A thread that stays on one processor and does what it is given."""

    def __init__(self, processor: int) -> None:
        super().__init__(daemon=True)
        self.processor = processor
        self.task: tuple[Network, int] | None = None
        self.begin, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.began_s = self.ended_s = 0.0
        self.start()

    def run(self) -> None:
        """Take tasks until there is none."""
        with staying_on((self.processor,)):
            while True:
                self.begin.acquire()
                if self.task is None:
                    return
                network, times = self.task
                self.began_s = time.perf_counter()
                network.run(times)
                self.ended_s = time.perf_counter()
                self.done.release()


def timed(parts: list[tuple[Lane, Network, int]]) -> float:
    """Seconds from the first beginning to the last end of networks that run together."""
    for lane, network, times in parts:
        lane.task = network, times
    for lane, _, _ in parts:
        lane.begin.release()
    for lane, _, _ in parts:
        lane.done.acquire()
    return max(lane.ended_s for lane, _, _ in parts) - min(lane.began_s for lane, _, _ in parts)


def read(path: Path, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that are there already; the first says what they were measured with."""
    if not path.exists():
        path.write_text(json.dumps(wanted) + "\n")
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    if not lines or lines[0] != wanted:
        sys.exit(f"{path}: measured with {lines[:1]}, not with {wanted}; accepted: another file")
    return lines[1:]


def main() -> None:
    """Measure until time is up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--networks", type=int, default=140)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    processors = available()
    if len(processors) < 2:
        sys.exit("two processors are needed, one for each lane")
    wanted = {"machine": machine(), "runtime": runtime(), "seed": arguments.seed, "stretch_s": STRETCH_S}
    there = read(arguments.out, wanted)
    end_s = time.monotonic() + 60.0 * arguments.minutes
    lanes = [Lane(processors[0]), Lane(processors[1])]
    networks = []
    for number in range(arguments.networks):
        if time.monotonic() > end_s - 40.0 * arguments.minutes:
            break
        try:
            network = Network(number, arguments.seed)
        except HeadwayError as error:
            print(f"network {number} left out: {error}", file=sys.stderr)
            continue
        network.run(2)
        network.alone_s = median(timed([(lanes[0], network, 1)]) for _ in range(7))
        if SHORTEST_S <= network.alone_s <= LONGEST_S:
            networks.append(network)
    print(f"{len(networks)} networks", file=sys.stderr)
    if len(networks) < 2:
        sys.exit("no two networks were ready in time; accepted: more --minutes or --networks")
    drawn = random.Random(f"{arguments.seed} {len(there)}")  # what goes on draws other pairs
    count = len(there)
    with arguments.out.open("a") as file:
        while time.monotonic() < end_s:
            one, other = drawn.sample(networks, 2)
            share = drawn.choice((1.0, 1.0, drawn.uniform(0.3, 1.0)))
            count += 1
            times = (
                max(1, round(STRETCH_S / one.alone_s)),
                max(1, round(share * STRETCH_S / other.alone_s)),
            )
            first, second = (lanes[0], one, times[0]), (lanes[1], other, times[1])
            timed([first, second])
            rounds = []
            for _ in range(ROUNDS):
                before = timed([first]), timed([second])
                together = timed([first, second])
                after = timed([first]), timed([second])
                alone = [(early + late) / 2.0 for early, late in zip(before, after, strict=True)]
                rounds.append([*alone, together])
            line = {
                "pair": [
                    {"number": network.number, "family": network.family, "times": repeats, **network.work}
                    for _, network, repeats in (first, second)
                ],
                "rounds": rounds,
            }
            file.write(json.dumps(line) + "\n")
            file.flush()
    for lane in lanes:
        lane.task = None
        lane.begin.release()
    print(f"{count} pairs in {arguments.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
