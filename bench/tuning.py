"""Every published baseline with eight settings of its free parameters, on the tuning seeds only.

The same budget for all: eight settings, the first of them the default before the tuning, in the same cells of
the suite core-grid with the same seeds. The policies meet the same arrivals and the same noise. Prints a
markdown table: mean SLA satisfaction with the first and with the best setting, the gain with its standard
error over the differences of cells and seeds, and what each setting had. Policies without free parameters are
left out.

    .venv/bin/python bench/tuning.py [--requests 100] [--policies prema,dysta] [--workers 2]
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import cache
from itertools import product
from math import sqrt
from statistics import mean, stdev

from headway import wiring
from headway.config import load_suite
from headway.policies.aurora import Aurora
from headway.policies.base import Policy
from headway.policies.dream import Dream
from headway.policies.dysta import Dysta
from headway.policies.headway_cores import OnCores
from headway.policies.herald import Herald, Metric, Order
from headway.policies.kedf import KEdf
from headway.policies.layerweaver import Layerweaver
from headway.policies.lucas import Lucas
from headway.policies.moca import Moca
from headway.policies.planaria import Planaria
from headway.policies.prema import Prema
from headway.policies.registry import policy
from headway.policies.relmas import Relmas
from headway.policies.terastal import Terastal
from headway.policies.veltair import Veltair
from headway.record.metrics import summarise

CELLS = (
    "light_xr-quad4k_medium_load1.0",
    "heavy_stream-hetero4_medium_load1.2",
    "mixed_moca8_medium_load1.2",
)

Setting = Mapping[str, object]


def every(**values: tuple[object, ...]) -> list[Setting]:
    """All combinations."""
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def each(name: str, *values: object) -> list[Setting]:
    """One parameter with several values."""
    return [{name: value} for value in values]


SETTINGS: dict[str, tuple[type[Policy], list[Setting]]] = {
    "kedf": (KEdf, each("share", 1.0, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.25)),
    "prema": (
        Prema,
        [
            {"growth": 1.0},
            {"growth": 0.1},
            {"growth": 0.3},
            {"growth": 3.0},
            {"growth": 1.0, "drain": False},
            {"growth": 0.1, "drain": False},
            {"growth": 1.0, "period_s": 1e-3},
            {"growth": 0.1, "period_s": 1e-3},
        ],
    ),
    "herald": (
        Herald,
        [
            *each("imbalance", 2.0, 1.0, 1.25, 1.5, 3.0, 8.0),
            {"metric": Metric.LATENCY},
            {"order": Order.BREADTH},
        ],
    ),
    "layerweaver": (
        Layerweaver,
        each("quantum_s", 0.5e-3, 0.1e-3, 0.2e-3, 0.35e-3, 0.7e-3, 1e-3, 2e-3, 4e-3),
    ),
    "layerweaver:plus": (
        Layerweaver,
        [
            {"deadlines": True, "quantum_s": 0.5e-3, "at_risk": share}
            for share in (1.0, 0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 5.0)
        ],
    ),
    "dream": (
        Dream,
        [
            {"most_dropped": 0.2},
            *every(most_dropped=(0.2,), window=(20, 100), step=(0.1, 0.5)),
            *each("most_dropped", 0.1, 0.3, 0.5),
        ],
    ),
    "dysta": (
        Dysta,
        [
            *every(quantum_s=(0.5e-3,), beta=(0.01, 0.0, 0.003, 0.03, 0.1, 0.3)),
            *each("quantum_s", 0.25e-3, 1e-3),
        ],
    ),
    "relmas": (Relmas, every(period_s=(0.25e-3, 0.1e-3, 0.5e-3, 1e-3), quantum_s=(0.5e-3, 1e-3))),
    "terastal": (Terastal, every(patience=(True, False), quantum_s=(0.5e-3, 0.25e-3, 1e-3, 2e-3))),
    "planaria": (Planaria, every(margin=(1.0, 1.1, 1.25, 1.5), score_by_slack=(True, False))),
    "veltair": (
        Veltair,
        [
            *each("alpha", 1.0, 0.5, 0.75, 1.5, 3.0),
            *each("block_layers", 5, 10, 60),
        ],
    ),
    "moca": (
        Moca,
        [*each("limit", 1.5, 1.0, 1.2, 2.0, 3.0), *each("heavy", 0.35, 0.65), {"floor": 0.25}],
    ),
    "aurora": (
        Aurora,
        [
            {},
            {"base": 1},
            *each("margin", 1.0, 1.2, 2.0),
            {"layer_s": 30e-6},
            {"layer_s": 300e-6},
            {"limit": 3.0},
        ],
    ),
    "lucas": (Lucas, each("preempts_at", 0.5, 0.0, 0.125, 0.25, 0.375, 0.75, 1.0, 1.5)),
    "headway": (
        OnCores,
        [
            {"stretch": stretch, "overlap": overlap}
            for stretch, overlap in (
                *((1.2, 0.3), (1.0, 0.3), (1.1, 0.3), (1.4, 0.3)),
                *((1.6, 0.3), (1.2, 0.0), (1.4, 0.5), (1.6, 0.5)),
            )
        ],
    ),
}


def registered(name: str) -> list[str]:
    """The names under which a policy's settings are registered."""
    cls, settings = SETTINGS[name]
    names = [f"tuned.{name}.{at}" for at in range(len(settings))]
    for own, setting in zip(names, settings, strict=True):
        policy(own, **setting)(cls)
    return names


@cache
def prepared(cell: str, seed: int, requests: int) -> wiring.Prepared:
    """A cell with one seed, once for all policies of a process."""
    suite = load_suite("core-grid")
    return wiring.prepare(suite.scenario(suite.cell(cell), seed).model_copy(update={"requests": requests}))


def measure(cell: str, seed: int, requests: int, name: str) -> list[float]:
    """SLA satisfaction in percent of every setting of a policy, in one cell with one seed."""
    shares = []
    for own in registered(name):
        share = summarise(wiring.simulate(prepared(cell, seed, requests), own)).total.sla_satisfaction
        assert share is not None
        shares.append(100.0 * share)
    return shares


def words(setting: Setting) -> str:
    """A setting in few words."""
    return ", ".join(f"{name} {value}" for name, value in setting.items()) or "default"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--seeds", default="1,2,11,12")
    parser.add_argument("--policies", default=",".join(SETTINGS))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    policies, seeds = options.policies.split(","), [int(seed) for seed in options.seeds.split(",")]
    runs = list(product(CELLS, seeds))
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()},")
    print(f"{options.requests} requests a run, seeds {options.seeds}, SLA satisfaction in percent\n")
    print(
        "| policy | default | best | gain | best setting | all settings |\n" + "| --- " * 6 + "|", flush=True
    )
    with ProcessPoolExecutor(options.workers) as pool:
        for name in policies:
            asked = [(cell, seed, options.requests, name) for cell, seed in runs]
            print(row(name, list(pool.map(measure, *zip(*asked, strict=True)))), flush=True)


def row(name: str, results: list[list[float]]) -> str:
    """The line of a policy, from what each of its settings had in every run."""
    _, settings = SETTINGS[name]
    columns = list(zip(*results, strict=True))
    means = [mean(column) for column in columns]
    best = max(range(len(means)), key=lambda at: (means[at], -at))
    gains = [one - other for one, other in zip(columns[best], columns[0], strict=True)]
    error = stdev(gains) / sqrt(len(gains))
    setting = words(settings[best]) if best else "default"
    all_means = "; ".join(
        f"{words(setting)}: {each:.1f}" for setting, each in zip(settings, means, strict=True)
    )
    return (
        f"| `{name}` | {means[0]:.1f} | {means[best]:.1f} | {means[best] - means[0]:+.1f} ± {error:.1f}"
        f" | {setting} | {all_means} |"
    )


if __name__ == "__main__":
    main()
