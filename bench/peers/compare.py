"""Headway beside other servers: three tenants, the same arrivals, each system in turn, all on this machine.

Each server runs in an environment of its own, made in Headway's cache when it is first needed, with the same
models and the same version of ONNX Runtime. All are up at once, but those that are not being measured are
halted (SIGSTOP), so that an idle server takes nothing from another. Time goes in short segments, one system
each in an order that is shuffled anew for each load and round; in a round all meet the same Poisson arrivals,
in open loop: latency counts from when a request should have been sent. Before each segment others' processes
must be quiet; how much they took meanwhile is told, and a segment that they spoilt is played again.

Utilisation 1 is what the better of two ways to run bare ONNX Runtime gets done (one worker of all threads, or
a worker per thread); deadlines are multiples of what a model alone takes with all threads. Only Headway hears
of deadlines, so it has a segment for each SLA; the others' one segment is judged by all of them.

    python bench/peers/compare.py --out out/peers --minutes 11             # twelve minutes at most
    python bench/peers/compare.py --out out/peers --rounds 6 --segment 8   # about an hour
    python bench/peers/compare.py --out out/peers --report                 # tables again, from what was kept

`--minutes` bounds it: no load is begun that would not be over by then. What was measured is kept in
progress.jsonl as it comes, and the same command goes on with it; `--anew` forgets it.

With `--into docs/serving-results.md` the tables go between that page's marks, and the plot beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvloop
from calibration import Calibration
from load import Segment, play
from noise import Probe, wait_until_quiet
from plot import plot
from progress import Progress, told
from roster import DEFAULT, systems
from systems import System
from tables import print_tables
from tenants import TENANTS, Models, trace

from headway.workload.draws import stream

BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
_ALONE = 15
_PATIENCE_S = 5.0


@dataclass
class Bench:
    """Systems that are up and halted, and what is needed to measure them."""

    models: Models
    probe: Probe
    calibration: Calibration
    systems: dict[str, System]
    alone_s: dict[str, dict[str, float]]
    most_foreign: float

    async def start(self, name: str, system: System) -> None:
        """Start a system, check its answers, measure it alone, and halt it."""
        system.start(self.models)
        try:
            await system.wait_until_ready()
            self.alone_s[name] = {tenant: await self._alone(system, tenant) for tenant in TENANTS}
        except BaseException:
            system.end()
            raise
        system.disconnect()
        system.halt()
        self.systems[name] = system

    async def _alone(self, system: System, tenant: str) -> float:
        """Median latency of a model through an idle system; raises RuntimeError for a wrong answer."""
        right = self.models.answers[tenant]
        times_s = []
        for _ in range(_ALONE):
            begin_s = time.perf_counter()
            answer = await system.ask(tenant, 60.0, None)
            times_s.append(time.perf_counter() - begin_s)
            output = answer.output(right)
            if output is None or not np.allclose(output, right, rtol=1e-3, atol=1e-3):
                raise RuntimeError(f"{system.name}: not the model's answer for {tenant}: {answer.words}")
        return median(times_s)

    async def segment(
        self,
        name: str,
        utilisation: float,
        round_number: int,
        sla: float | None,
        duration_s: float,
        seed: int,
    ) -> Segment:
        """One segment; played again once if others were not quiet."""
        system = self.systems[name]
        limits = self.calibration.sla_s(sla or 1.0)
        arrivals = trace(self.calibration.rates(utilisation), duration_s, seed + round_number, limits)
        roots = [os.getpid(), *(pid for one in self.systems.values() for pid in one.processes())]
        best: Segment | None = None
        for _ in range(2):
            await asyncio.to_thread(wait_until_quiet, roots, self.most_foreign, _PATIENCE_S)
            before_s = self.probe.take_s()
            system.go_on()
            await system.connect()
            found = await play(system, arrivals, sla, roots)
            system.disconnect()
            await asyncio.sleep(0.05)
            system.halt()
            probe_s = (before_s + self.probe.take_s()) / 2
            one = Segment(
                system=name,
                utilisation=utilisation,
                round=round_number,
                sla=sla,
                duration_s=duration_s,
                probe_s=probe_s,
                **found,
            )
            if best is None or one.foreign < best.foreign:
                best = one
            if best.foreign <= self.most_foreign:
                break
        assert best is not None
        return best


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start all systems, play all segments, end the systems; returns everything that was found."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        models = Models.write(Path(folder), options.seed)
        probe = Probe(models.contents["middle"], models.inputs["middle"])
        chosen = systems()
        kept = Progress(options.out / "progress.jsonl", wanted(options), anew=options.anew)
        calibration = kept.calibration
        if calibration is None:
            roots = [os.getpid()]
            await asyncio.to_thread(wait_until_quiet, roots, options.most_foreign, _PATIENCE_S)
            calibration = Calibration.measure(models, probe)
            kept.begin(calibration)
        bench = Bench(models, probe, calibration, {}, {}, options.most_foreign)
        failures: dict[str, str] = {}
        try:
            for name in options.systems:
                system = chosen[name]
                if system.told_sla:
                    system.sla_s = {sla: calibration.sla_s(sla) for sla in options.slas}
                try:
                    await bench.start(name, system)
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    failures[name] = str(error)
                    print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
                else:
                    alone = ", ".join(f"{1e3 * s:.1f}" for s in bench.alone_s[name].values())
                    print(f"{name}: up; alone {alone} ms", file=sys.stderr, flush=True)
            await play_cells(bench, options, kept, began_s)
        finally:
            for system in bench.systems.values():
                system.end()
    return {
        "about": about(options),
        "calibration": calibration.as_mapping(),
        "labels": {name: system.label for name, system in bench.systems.items()},
        "alone_s": bench.alone_s,
        "failures": failures,
        "segments": kept.segments,
    }


async def play_cells(bench: Bench, options: argparse.Namespace, kept: Progress, began_s: float) -> None:
    """All segments that are not there yet, cell by cell, as long as the next one will be over in time."""
    longest_s = 0.0
    for round_number in range(options.rounds):
        for utilisation in options.utilisations:
            if (round_number, utilisation) in kept.cells:
                continue
            now_s = time.monotonic()
            if now_s + longest_s - began_s > 60.0 * options.minutes:
                print("the time is over: the other loads are left out", file=sys.stderr, flush=True)
                return
            played = []
            for job in jobs(bench.systems, options, round_number, utilisation):
                played.append(await bench.segment(*job, options.segment, options.seed))
                print(told(played[-1]), file=sys.stderr, flush=True)
            kept.add(played)
            longest_s = max(longest_s, time.monotonic() - now_s)


def jobs(
    running: Mapping[str, System], options: argparse.Namespace, round_number: int, utilisation: float
) -> list[tuple[str, float, int, float | None]]:
    """Names, utilisation, round and SLAs of a cell's segments, in their order."""
    cell = [
        (name, utilisation, round_number, sla)
        for name, system in running.items()
        for sla in (options.slas if system.told_sla else [None])
    ]
    order = stream(options.seed, "order", round_number, f"{utilisation}").permutation(len(cell))
    return [cell[i] for i in order]


def wanted(options: argparse.Namespace) -> dict[str, Any]:
    """What makes two runs parts of one comparison."""
    names = ("systems", "utilisations", "slas", "rounds", "segment", "seed", "most_foreign")
    return {name: getattr(options, name) for name in names}


def about(options: argparse.Namespace) -> dict[str, Any]:
    """Where, when and how."""
    import onnxruntime

    cpu = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    name = cpu[0] if cpu else platform.machine()
    return {
        "command": "python bench/peers/compare.py " + " ".join(sys.argv[1:]),
        "date": datetime.date.today().isoformat(),
        "machine": f"{name}, {os.cpu_count()} processors",
        "python": platform.python_version(),
        "onnxruntime": onnxruntime.__version__,
        "seed": options.seed,
        "slas": options.slas,
        "rounds": options.rounds,
        "segment_s": options.segment,
    }


def numbers(text: str) -> list[float]:
    """Comma-separated numbers."""
    return [float(part) for part in text.split(",")]


def main() -> None:
    """Measure, keep what was found, print tables and draw the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json and plot.svg")
    parser.add_argument(
        "--systems",
        type=lambda text: text.split(","),
        default=list(DEFAULT),
        help=f"of {', '.join(systems())}",
    )
    parser.add_argument("--utilisations", type=numbers, default=[0.3, 0.6, 0.8, 0.95])
    parser.add_argument("--slas", type=numbers, default=[2.0, 4.0, 8.0], help="multiples of isolated latency")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--segment", type=float, default=4.0, help="seconds of arrivals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--most-foreign", type=float, default=0.05, help="part of all processors that others may take"
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="no load is begun that ends later")
    parser.add_argument("--anew", action="store_true", help="do not go on with what --out holds")
    parser.add_argument("--into", type=Path, help="a page whose tables are to be replaced")
    parser.add_argument("--report", action="store_true", help="only print results.json of --out")
    options = parser.parse_args()
    unknown = [name for name in options.systems if name not in systems()]
    if unknown:
        parser.error(f"--systems: no {', '.join(unknown)}; there are {', '.join(systems())}")
    file = options.out / "results.json"
    if not options.report:
        options.out.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(uvloop.run(measure(options))))
    found = json.loads(file.read_text())
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        print_tables(found)
    print(told.getvalue())
    plot(found, options.out / "plot.svg")
    if options.into is not None:
        plot(found, options.into.parent / "images" / "serving.svg")
        options.into.write_text(marked(options.into.read_text(), told.getvalue()))


def marked(page: str, tables: str) -> str:
    """A page with other tables between its marks; raises ValueError if it has none."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"the page has no {BEGIN} before an {END}")
    image = "![Requests in time, of those offered, over load](images/serving.svg)"
    return f"{before}{BEGIN}\n\n{image}\n\n{tables.strip()}\n\n{END}{after}"


if __name__ == "__main__":
    main()
