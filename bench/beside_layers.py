"""Lucas beside its layer-by-layer ablation in one cell of core-grid, and what the difference depends on.

Each line is a pair of runs on the same arrivals: as they are; without noise; without preemption; where a
stopped run may go on at cores of any type; the ablation at a load 1 % lower or higher, for what core-time is
worth; and a variant of Lucas that fuses on one core only while the memory has a price (psi > 0). Prints a
markdown table: mean SLA satisfaction, the difference with its 95 % interval over the seeds, core seconds and
stops.

    .venv/bin/python bench/beside_layers.py [--cell heavy_xr-quad4k_medium_load1.0] [--seeds 101,102,103]
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from statistics import fmean
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from headway import wiring
from headway.config import Scenario, load_suite
from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.protocols import View
from headway.core.request import Partial, Request
from headway.policies.lucas import _MENUS, Lucas
from headway.policies.lucas_menu import Menu
from headway.policies.lucas_pricing import Pressure
from headway.policies.lucas_runs import Allowed
from headway.policies.registry import policy
from headway.record.columns import stretches_of
from headway.record.intervals import interval
from headway.record.metrics import summarise

PLAIN = Allowed(fuse=False)


@policy("bench.lbl-no-preempt", fuse=False, pipeline=False, preempt=False)
class WithoutBoth(Lucas):
    """Layer by layer, without preemption."""


@policy("bench.priced-fusion")
class PricedFusion(Lucas):
    """Fuses on one core only while the memory has a price, or to go on with a stack that was stopped."""

    _plain = False

    def _choose(
        self, order: Sequence[Request], ahead: Sequence[Request], pressure: Pressure, view: View
    ) -> tuple[Request, Option, tuple[Core, ...]] | None:
        self._plain = pressure.psi <= 0.0
        try:
            return super()._choose(order, ahead, pressure, view)
        finally:
            self._plain = False

    def _menu(self, request: Request, view: View) -> Menu:
        partial = request.partial
        if not self._plain or (partial is not None and partial.mode is Mode.FUSED):
            return super()._menu(request, view)
        table = view.table(request)
        shared = _MENUS.setdefault(table, {})
        if PLAIN not in shared:
            shared[PLAIN] = Menu(table, view.device.dram_bandwidth_bytes_s, PLAIN)
        return shared[PLAIN]


class Run(NamedTuple):
    """SLA satisfaction, seconds that cores were busy, and how many runs were stopped."""

    share: float
    core_s: float
    stops: int


def run(scenario: Scenario, name: str) -> Run:
    """A scenario under a policy."""
    log = wiring.simulate(wiring.prepare(scenario), name)
    share = summarise(log).total.sla_satisfaction
    assert share is not None
    return Run(share, float(stretches_of(log).core_seconds.sum()), len(log.where("stop")))


@contextmanager
def on_any_type() -> Iterator[None]:
    """Stopped runs may go on at cores of any type."""
    resumed_by = Partial.resumed_by

    def regardless(
        self: Partial,
        first: int,
        end: int,
        mode: Mode,
        cuts: tuple[int, ...],
        band_rows: int | None,
        kinds: tuple[str, ...],
    ) -> bool:
        same = self.kinds if len(kinds) == len(self.kinds) else kinds
        return resumed_by(self, first, end, mode, cuts, band_rows, same)

    with patch.object(Partial, "resumed_by", regardless):
        yield


def pairs(scenario: Scenario) -> dict[str, tuple[Run, Run]]:
    """By what is different, the two runs to be compared."""
    quiet = scenario.with_overrides({"noise.solo_std": 0.0})
    load = scenario.offered_load
    assert load is not None
    lighter, heavier = (scenario.with_overrides({"load": load * factor}) for factor in (0.99, 1.01))
    lucas, plain = run(scenario, "lucas"), run(scenario, "lucas:lbl")
    with on_any_type():
        anywhere = run(scenario, "lucas"), run(scenario, "lucas:lbl")
    return {
        "as they are": (lucas, plain),
        "without noise": (run(quiet, "lucas"), run(quiet, "lucas:lbl")),
        "without preemption": (run(scenario, "lucas:no-preempt"), run(scenario, "bench.lbl-no-preempt")),
        "stopped runs go on at any type": anywhere,
        "`lucas:lbl` with a load of 0.99": (plain, run(lighter, "lucas:lbl")),
        "`lucas:lbl` with a load of 1.01": (plain, run(heavier, "lucas:lbl")),
        "`lucas` that fuses only while memory has a price": (lucas, run(scenario, "bench.priced-fusion")),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cell", default="heavy_xr-quad4k_medium_load1.0")
    parser.add_argument("--seeds", default="101,102,103,104,105")
    parser.add_argument("--requests", type=int, default=1000)
    options = parser.parse_args()
    suite = load_suite("core-grid")
    cell = suite.cell(options.cell)
    found: dict[str, list[tuple[Run, Run]]] = {}
    for seed in options.seeds.split(","):
        scenario = suite.scenario(cell, int(seed)).model_copy(update={"requests": options.requests})
        for name, pair in pairs(scenario).items():
            found.setdefault(name, []).append(pair)
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()}, {options.cell},")
    print(f"{options.requests} requests, seeds {options.seeds}\n")
    print("| | first % | second % | second - first | core seconds | stops |\n" + "| --- " * 6 + "|")
    for name, both in found.items():
        shares, core_s, stops = np.moveaxis(np.array(both, dtype=np.float64), 2, 0)
        gain = interval((100 * (shares[:, 1] - shares[:, 0])).tolist())
        half = "" if gain.half is None else f" ± {gain.half:.2f}"
        first, second = (100 * fmean(column) for column in shares.T.tolist())
        print(
            f"| {name} | {first:.2f} | {second:.2f} | {gain.mean:+.2f}{half}"
            f" | {' and '.join(f'{fmean(column):.2f}' for column in core_s.T.tolist())}"
            f" | {' and '.join(f'{fmean(column):.0f}' for column in stops.T.tolist())} |"
        )


if __name__ == "__main__":
    main()
