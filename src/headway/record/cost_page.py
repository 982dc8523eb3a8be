"""One self-contained HTML page about what a model costs on a device. It works without a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.record.figures import number, percent, scaled
from headway.record.page import Filters, render_page
from headway.record.results import write_text

Described = Mapping[str, Any]
"""What `headway cost --json` prints (docs/cost-command.md)."""


def first_of_kinds(described: Described) -> dict[str, str]:
    """The first core of every type -> how the type is called: its name, or `NAME x COUNT`."""
    cores = described["cores"]
    kinds = [core["kind"] for core in cores.values()]
    first: dict[str, str] = {}
    seen: set[str] = set()
    for name, core in cores.items():
        if core["kind"] not in seen:
            seen.add(core["kind"])
            count = kinds.count(core["kind"])
            first[name] = name if count == 1 else f"{core['kind']} x {count}"
    return first


def write_cost_page(path: Path, described: Described) -> None:
    """Write the page."""
    write_text(path, render(described))


def render(described: Described) -> str:
    """The page as text."""
    filters: Filters = {
        "number": number,
        "percent": percent,
        "count": lambda value: scaled(value, "").strip(),
        "bytes": lambda value: scaled(value, "B"),
        "macs": lambda value: scaled(value, "MAC"),
        "joules": _joules,
    }

    firsts = first_of_kinds(described)
    return render_page(
        "cost",
        plotted(described),
        filters,
        cost=described,
        cores=firsts,
        lead=_lead(described, firsts),
    )


def plotted(described: Described) -> dict[str, Any]:
    """What the page's script draws: cycles and bytes by layer, and the roofline.

    Its points are layers with multiply-accumulates: MACs per byte of DRAM traffic against MAC/s.
    """
    firsts = first_of_kinds(described)
    layers = described["layers"]
    bandwidth = described["dram_bandwidth_bytes_s"]
    shown = []
    for name, title in firsts.items():
        core = described["cores"][name]
        entries = [layer["cores"][name] for layer in layers]
        points = [
            {
                "layer": layer["index"],
                "macs_per_byte": layer["macs"] / entry["dram_bytes"],
                "macs_s": layer["macs"] / entry["latency_cycles"] * core["clock_hz"],
                "share": entry["latency_cycles"] / described["totals"]["cores"][name]["latency_cycles"],
            }
            for layer, entry in zip(layers, entries, strict=True)
            if layer["macs"]
        ]
        shown.append(
            {
                "title": title,
                "terms": {
                    term: [entry[f"{term}_cycles"] for entry in entries]
                    for term in ("compute", "stall", "onload", "offload")
                },
                "memories": {
                    memory: [entry["memory_bytes"][memory] for entry in entries]
                    for memory in core["memories"]
                },
                "energy": {
                    part: [entry["energy_pj_by"][part] for entry in entries]
                    for part in ("mac", *core["memories"])
                },
                "points": points,
                "peak_macs_s": core["macs_per_cycle"] * core["clock_hz"],
            }
        )
    return {
        "layers": [f"{layer['index']} {layer['name']}" for layer in layers],
        "cores": shown,
        "bandwidth_bytes_s": bandwidth,
    }


def _lead(described: Described, firsts: Mapping[str, str]) -> str:
    """One sentence: how long it takes where it is fastest, and what that time goes into."""
    totals, cores = described["totals"]["cores"], described["cores"]
    best = min(firsts, key=lambda name: totals[name]["latency_cycles"] / cores[name]["clock_hz"])
    total = totals[best]
    milliseconds = total["latency_cycles"] / cores[best]["clock_hz"] * 1e3
    waiting = total["latency_cycles"] - total["compute_cycles"]
    return (
        f"Layer by layer {described['model']} takes {number(milliseconds)} ms on {best}, "
        f"{waiting / total['latency_cycles']:.0%} of it waiting for data."
    ).replace("%", "\N{NO-BREAK SPACE}%")


def _joules(picojoules: float) -> str:
    for factor, unit in ((1e12, "J"), (1e9, "mJ"), (1e6, "µJ"), (1e3, "nJ")):
        if abs(picojoules) >= factor:
            return f"{number(picojoules / factor)} {unit}"
    return f"{number(picojoules)} pJ"
