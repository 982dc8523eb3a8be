"""Loads a new model every ten seconds into a live server under load: intake times, and violations at first.

Two models stay, and two of those that came last. Arrivals are Poisson; each of the four brings the same work,
so that together they use `--utilisation` of the time that their models take alone, one after the other. A
deadline is `--sla` times a model's time alone. A violation is a request that is answered too late, refused or
given up. Requests go to the service in this process, without a network; what a client thread takes of the
two processors is charged to the server. Earlier profiles are not used: every intake is a first one.

    python bench/new_model.py --minutes 3
    python bench/new_model.py --minutes 3 --policy edf:planned

Models of the zoo are written as files first, which takes a while and is not counted. Rows are printed as they
go. Needs a machine at rest: profiles are measured while it runs.
"""

from __future__ import annotations

import argparse
import datetime
import heapq
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from threading import Lock

import numpy as np
import onnx

from headway.config.serving import Serving
from headway.models import zoo
from headway.serve.refusal import Refusal
from headway.serve.repository import ModelSource
from headway.serve.service import InferenceRequest, InferenceResult
from headway.serve.tensors import DTYPES
from headway.wiring.serving import Server
from headway.workload.draws import stream

STAYING = ("mobilenet_v2", "bert_small")
NEWCOMERS = (
    "squeezenet",
    "regnet_y_400mf",
    "shufflenet_v2",
    "distilbert",
    "efficientnet_b0",
    "resnet18",
    "fbnet_c",
    "mobilenet_v3_large",
    "unet",
    "mobilebert",
    "googlenet",
    "mobilenet_v1",
    "yolo_lite",
    "resnet34",
    "mobilenet_v3_small",
    "densenet121",
    "regnet_y_1_6gf",
)
NEW_AT_A_TIME = 2
FIRST = 100
WARM_UP_S = 5.0
LAST_ANSWERS_S = 10.0


@dataclass
class Asked:
    """A model that is asked: what came of its requests, in the order in which they were sent.

    `outcomes` are in time (True) or not; `during` tells which were sent while another model was taken in.
    """

    name: str
    inputs: dict[str, np.ndarray]
    rate: float
    deadline_s: float
    draws: np.random.Generator
    alone_s: float
    intake_s: float = 0.0
    outcomes: list[bool | None] = field(default_factory=list)
    during: list[bool] = field(default_factory=list)
    refused: int = 0
    leaving: bool = False

    def violated(self, first: int | None = None, during: bool | None = None) -> tuple[int, int]:
        """Violations and requests: of the first ones, and of those sent during an intake, or not."""
        chosen = [
            outcome is not True
            for outcome, then in zip(self.outcomes[:first], self.during[:first], strict=True)
            if during is None or then == during
        ]
        return sum(chosen), len(chosen)


class Load:
    """Poisson arrivals of all models that are asked, from one thread."""

    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self.server, self._options = server, options
        self.intake: Future[None] | None = None
        self._due: list[tuple[float, int, Asked]] = []
        self._lock = Lock()
        self._count = 0

    def join(self, name: str, intake_s: float = 0.0) -> Asked:
        """A model is asked from now on."""
        options, loaded = self._options, self.server.models.find(name, "")
        described = self.server.service.describe(name)
        asked = Asked(
            name,
            {each.name: np.zeros(each.shape, DTYPES[each.datatype]) for each in described.inputs},
            options.utilisation / (len(STAYING) + NEW_AT_A_TIME) / loaded.isolated_s,
            options.sla * loaded.isolated_s,
            stream(options.seed, "arrivals", name),
            loaded.isolated_s,
            intake_s,
        )
        self._next(asked, time.perf_counter())
        return asked

    def play(self, until_s: float) -> None:
        """Send what is due until then."""
        while self._due and self._due[0][0] < until_s:
            due_s, _, asked = self._due[0]
            now_s = time.perf_counter()
            if due_s > now_s:
                time.sleep(due_s - now_s)
            heapq.heappop(self._due)
            if not asked.leaving:
                self._send(asked)
                self._next(asked, due_s)
        time.sleep(max(0.0, until_s - time.perf_counter()))

    def _next(self, asked: Asked, after_s: float) -> None:
        self._count += 1
        gap_s = float(asked.draws.exponential(1.0 / asked.rate))
        heapq.heappush(self._due, (after_s + gap_s, self._count, asked))

    def _send(self, asked: Asked) -> None:
        outcomes, at, sent_s = asked.outcomes, len(asked.outcomes), time.perf_counter()
        outcomes.append(None)
        asked.during.append(self.intake is not None and not self.intake.done())

        def done(answer: InferenceResult | Refusal) -> None:
            in_time = time.perf_counter() - sent_s <= asked.deadline_s
            with self._lock:
                asked.refused += isinstance(answer, Refusal)
                outcomes[at] = in_time and not isinstance(answer, Refusal)

        try:
            self.server.service.submit(
                InferenceRequest(asked.name, "", asked.inputs, (), "", None, sent_s), done
            )
        except Refusal as refusal:
            done(refusal)


def violations(counts: Iterable[tuple[int, int]]) -> str:
    """Violations, of how many."""
    pairs = list(counts)
    wrong, asked = sum(each for each, _ in pairs), sum(each for _, each in pairs)
    return f"{100 * wrong / asked:.2f} % ({wrong} of {asked:,})" if asked else "none asked"


def row(asked: Asked) -> str:
    """A line of the table."""
    wrong, first = asked.violated(FIRST)
    cells = [
        asked.name,
        f"{asked.intake_s:.2f}",
        f"{1e3 * asked.alone_s:.1f}",
        f"{len(asked.outcomes)}",
        f"{wrong} of {first}",
        violations([asked.violated()]),
        f"{asked.refused}",
    ]
    return "| " + " | ".join(cells) + " |"


def written(folder: Path, count: int) -> dict[str, Path]:
    """The first newcomers as files, by name."""
    files = {name: folder / f"{name}.onnx" for name in NEWCOMERS[:count]}
    for name, path in files.items():
        onnx.save(zoo.build(name), path)
    return files


def serve(
    options: argparse.Namespace, server: Server, newcomers: dict[str, Path]
) -> tuple[list[Asked], list[Asked], list[str]]:
    """Play all of it: the models that stay, those that came, and why some did not."""
    load = Load(server, options)
    staying = [load.join(name) for name in STAYING]
    load.play(time.perf_counter() + WARM_UP_S)
    for each in staying:
        each.outcomes, each.during, each.refused = [], [], 0
    came: list[Asked] = []
    failed: list[str] = []
    waiting = list(newcomers)
    began_s = time.perf_counter()
    end_s = began_s + 60.0 * options.minutes
    next_s = began_s
    print("| new model | intake s | alone ms | requests | violations of the first 100 | of all | refused |")
    print("|" + " --- |" * 7, flush=True)
    there: list[Asked] = []
    going: list[tuple[Asked, Future[None]]] = []
    while time.perf_counter() < end_s:
        load.play(min(max(next_s, time.perf_counter()), end_s))
        if not waiting or time.perf_counter() >= end_s:
            break
        name = waiting.pop(0)
        server.models.keep(ModelSource(name, "1", newcomers[name]))
        asked_s = time.perf_counter()
        load.intake = server.models.load(name)
        while not load.intake.done() and time.perf_counter() < end_s:
            load.play(time.perf_counter() + 0.01)
        if not load.intake.done():
            failed.append(f"{name}: the end came first, after {time.perf_counter() - asked_s:.1f} s")
            break
        error = load.intake.exception()
        if error is not None:
            failed.append(f"{name}: {error}")
        else:
            there.append(load.join(name, time.perf_counter() - asked_s))
            came.append(there[-1])
            if len(there) > NEW_AT_A_TIME:
                going.append(leave(server, there.pop(0)))
        while going and going[0][1].done():
            print(row(going.pop(0)[0]), flush=True)
        next_s = asked_s + options.every
    load.play(end_s)
    for each in (*staying, *there):
        each.leaving = True
    until_s = time.perf_counter() + LAST_ANSWERS_S
    while time.perf_counter() < until_s and any(None in each.outcomes for each in (*staying, *came)):
        time.sleep(0.1)
    for each in (*(each for each, _ in going), *there):
        print(row(each), flush=True)
    return staying, came, failed


def leave(server: Server, asked: Asked) -> tuple[Asked, Future[None]]:
    """A model is asked no more, and goes once its last requests are answered."""
    asked.leaving = True
    server.models.forget(asked.name)
    return asked, server.models.unload(asked.name)


def main() -> None:
    """Serve, load and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds from one load to the next")
    parser.add_argument("--utilisation", type=float, default=0.7)
    parser.add_argument("--sla", type=float, default=5.0, help="multiple of a model's time alone")
    parser.add_argument("--policy", default="headway")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(
        f"`python bench/new_model.py {' '.join(sys.argv[1:])}`; {platform.machine()}, {os.cpu_count()} "
        f"processors, Python {platform.python_version()}, seed {options.seed}, {datetime.date.today()}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADWAY_CACHE"] = str(Path(folder) / "profiles")
        newcomers = written(Path(folder), ceil(60.0 * options.minutes / options.every))
        serving = Serving.from_mapping(
            {
                "hardware": "cpu-lanes",
                "policy": options.policy,
                "models": [{"name": name} for name in STAYING],
                "tenants": [{"name": "anonymous", "sla": {"isolated": options.sla}}],
            }
        )
        server = Server(serving, lambda words: None)
        server.load()
        staying, came, failed = serve(options, server, newcomers)
        server.close(LAST_ANSWERS_S)
    for words in failed:
        print(f"\nnot served: {words}")
    intakes_s = [each.intake_s for each in came]
    print(
        f"\nfirst {FIRST} requests of {len(came)} new models: {violations(e.violated(FIRST) for e in came)}"
    )
    print(f"new models after that: {violations(after(each) for each in came)}")
    print(f"models that stay, while one is taken in: {violations(e.violated(during=True) for e in staying)}")
    print(f"models that stay, else: {violations(e.violated(during=False) for e in staying)}")
    if intakes_s:
        print(f"intake: median {np.median(intakes_s):.2f} s, longest {max(intakes_s):.2f} s")


def after(asked: Asked) -> tuple[int, int]:
    """Violations and requests after the first ones."""
    (wrong, count), (wrong_first, first) = asked.violated(), asked.violated(FIRST)
    return wrong - wrong_first, count - first


if __name__ == "__main__":
    main()
