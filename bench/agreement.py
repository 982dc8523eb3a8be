"""Our costs beside ZigZag's, layer by layer: the tables and the plot of docs/costs.md.

The facts are ZigZag's results on ResNet-18 and on layers of AlexNet, ResNet-50, MobileNet and BERT, on six
published accelerators (tests/cost/facts/zigzag.json); nothing of ZigZag is run.

    python bench/agreement.py --plot docs/images/agreement.svg
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from html import escape
from math import log10
from pathlib import Path
from typing import Any

from headway.config.hardware import load_hardware
from headway.core.hierarchy import Hierarchy, Memory, Move, Port
from headway.cost.mapped import MappedLayer
from headway.cost.nest import Nest
from headway.cost.search import map_layer

FACTS = Path(__file__).parents[1] / "tests" / "cost" / "facts" / "zigzag.json"
MAC_PJ = 0.04
TERMS = ("compute", "stall", "on-load", "off-load")
INK, SOFT, OURS, PHYSICAL = "#222222", "#9a9a9a", "#0b62a4", "#d1651c"


@dataclass(frozen=True)
class Compared:
    """A layer: the peer's run, its mapping under its overlap, our own under it, and our own by hardware."""

    run: dict[str, Any]
    given: MappedLayer
    own: MappedLayer
    physical: MappedLayer

    @property
    def theirs(self) -> int:
        """The peer's cycles."""
        return sum(self.run["cycles"])


def hierarchy_of(run: dict[str, Any]) -> Hierarchy:
    """The preset's core with the peer's DRAM on top: a port of 64 bit."""
    inside = load_hardware(run["accelerator"]).cores[0].hierarchy
    assert inside is not None
    serves = (("I", Move.FEED), ("W", Move.FEED), ("O", Move.STORE), ("O", Move.FEED))
    axes = tuple(range(len(inside.axes)))
    dram = Memory(
        "dram", 1e10, ("I", "W", "O"), (Port(64, 64, serves),), axes, *run.get("dram_pj", (700, 750))
    )
    return replace(inside.under(dram), systolic=axes if run.get("systolic") else ())


def compared(run: dict[str, Any]) -> Compared:
    """One layer in all ways."""
    nest = Nest.of(run["loops"], stride=run["stride"], dilation=run.get("dilation", 1))
    hierarchy = hierarchy_of(run)
    return Compared(
        run,
        map_layer(nest, hierarchy, run["mapping"], overlap="zigzag"),
        map_layer(nest, hierarchy, overlap="zigzag"),
        map_layer(nest, hierarchy),
    )


def tables(layers: list[Compared]) -> None:
    """Print how far off each term is at most, and the sums."""
    print("| accelerator | layers | " + " | ".join(TERMS) + " | DRAM words | energy |")
    print("| --- | --- |" + " --- |" * 6)
    names = list(dict.fromkeys(layer.run["accelerator"] for layer in layers))
    for name in names:
        rows = [layer for layer in layers if layer.run["accelerator"] == name]
        off = [max(abs(terms(r.given)[i] - r.run["cycles"][i]) for r in rows) for i in range(4)]
        words = max(
            abs(r.given.words_of("dram")[o] / r.run["dram_words"][o] - 1) for r in rows for o in "WIO"
        )
        energy = max(abs(energy_pj(r) / r.run["energy_pj"] - 1) for r in rows)
        cells = [f"{worst:.0f}" for worst in off] + [f"{words:.2%}", f"{energy:.3%}"]
        print(f"| {name} | {len(rows)} | " + " | ".join(cells) + " |")
    print()
    print("| accelerator | ZigZag | ours, ZigZag's mapping | ours, own mapping | ours, by hardware |")
    print("| --- | --- | --- | --- | --- |")
    for name in names:
        rows = [layer for layer in layers if layer.run["accelerator"] == name]
        sums = [
            sum(r.theirs for r in rows),
            *(sum(getattr(r, way).latency_cycles for r in rows) for way in ("given", "own", "physical")),
        ]
        print(f"| {name} | " + " | ".join(f"{cycles:,.0f}" for cycles in sums) + " |")


def terms(mapped: MappedLayer) -> list[float]:
    """Cycles of compute, stall, on-load, off-load."""
    return [mapped.compute_cycles, mapped.stall_cycles, mapped.onload_cycles, mapped.offload_cycles]


def energy_pj(layer: Compared) -> float:
    """Energy under the peer's mapping, the array included."""
    return layer.given.memory_energy_pj + layer.run.get("mac_pj", MAC_PJ) * layer.given.mac_count


def plot(layers: list[Compared]) -> str:
    """An SVG: a panel per accelerator, cycles of each layer on a logarithmic axis."""
    names = list(dict.fromkeys(layer.run["accelerator"] for layer in layers))
    width, height, left, bottom, top = 1080, 250, 70, 110, 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {len(names) * height + 40}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}">',
        f'<rect width="{width}" height="{len(names) * height + 40}" fill="white"/>',
    ]
    legend = (
        (f'<circle r="5" fill="none" stroke="{INK}" stroke-width="1.5"/>', "ZigZag"),
        (f'<path d="M-4 -4L4 4M-4 4L4 -4" stroke="{OURS}" stroke-width="1.5"/>', "ours, ZigZag's mapping"),
        (f'<circle r="2.5" fill="{OURS}"/>', "ours, own mapping, ZigZag's overlap"),
        (f'<rect x="-6" y="-1.5" width="12" height="3" fill="{PHYSICAL}"/>', "ours, by hardware"),
    )
    for index, (mark, text) in enumerate(legend):
        parts.append(f'<g transform="translate({left + 10 + index * 245},18)">{mark}</g>')
        parts.append(f'<text x="{left + 24 + index * 245}" y="22">{escape(text)}</text>')
    for panel, name in enumerate(names):
        rows = [layer for layer in layers if layer.run["accelerator"] == name]
        origin, floor = 40 + panel * height, height - bottom
        values = [v for r in rows for v in (r.theirs, r.physical.latency_cycles, r.own.latency_cycles)]
        low, high = int(log10(min(values))), int(log10(max(values))) + 1

        def upwards(
            cycles: float, origin: int = origin, floor: int = floor, low: int = low, high: int = high
        ):
            return origin + floor - (floor - top) * (log10(cycles) - low) / (high - low)

        parts.append(f'<text x="{left}" y="{origin + 20}" font-weight="bold">{name}, cycles</text>')
        for power in range(low, high + 1):
            y = upwards(10.0**power)
            parts.append(
                f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="{SOFT}" '
                f'stroke-width="0.5"/><text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{10**power:,}</text>"
            )
        for index, row in enumerate(rows):
            x = left + 16 + index * (width - left - 50) / max(1, len(rows) - 1)
            marks = zip(
                legend,
                (row.theirs, *(getattr(row, way).latency_cycles for way in ("given", "own", "physical"))),
                strict=True,
            )
            for (mark, _), cycles in marks:
                parts.append(f'<g transform="translate({x:.1f},{upwards(cycles):.1f})">{mark}</g>')
            label = escape(row.run["layer"])
            parts.append(
                f'<text transform="translate({x + 4:.1f},{origin + floor + 12}) rotate(-60)" '
                f'text-anchor="end" font-size="10">{label}</text>'
            )
    return "\n".join((*parts, "</svg>\n"))


def main() -> None:
    """Print the tables, and write the plot if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", type=Path, help="write an SVG there")
    arguments = parser.parse_args()
    layers = [compared(run) for run in json.loads(FACTS.read_text())["runs"]]
    tables(layers)
    if arguments.plot:
        arguments.plot.write_text(plot(layers))


if __name__ == "__main__":
    main()
