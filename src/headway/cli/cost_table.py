"""The tables that `headway cost` prints."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.cli.cost_document import TERMS
from headway.record.cost_page import first_of_kinds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_FILE_WIDTH = 140  # of a table that goes to a file or a pipe
_PREFIXES = (
    *((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
    *((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")),
)


def print_costs(described: dict[str, Any], *, own_stack: bool, objective: str) -> None:
    """Print the layers on every type of core, the totals, and the stacks."""
    from rich.console import Console

    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    for name, title in first_of_kinds(described).items():
        core = described["cores"][name]
        console.print(
            f"{title}: {core['macs_per_cycle']:,} MAC/cycle at {core['clock_hz'] / 1e6:g} MHz, "
            f"{core['dram_bytes_per_cycle']:g} B/cycle of DRAM",
            style="bold",
            highlight=False,
            markup=False,
        )
        console.print(_layer_table(described, name))
    _print_stacks(console, described, own_stack, objective)


def _layer_table(described: dict[str, Any], core: str) -> Table:
    from rich.markup import escape

    table = _bare_table()
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("layer", no_wrap=True, overflow="ellipsis", min_width=8)
    memories = described["cores"][core]["memories"]
    titles = ("cycles", "compute", "stall", "load", "store", "use", *(f"{name} B" for name in memories))
    for title in (*titles, "energy"):
        table.add_column(title, justify="right", overflow="fold")
    rate = described["cores"][core]["macs_per_cycle"]

    def cells(entry: dict[str, Any], macs: float) -> list[str]:
        share = macs / (rate * entry["latency_cycles"])
        return [
            _scaled(entry["latency_cycles"]),
            *(_scaled(entry[term]) for term in TERMS),
            f"{share:.1%}" if macs else "",
            *(_scaled(entry["memory_bytes"][name]) for name in memories),
            _scaled(entry["energy_pj"] * 1e-12, "J"),
        ]

    for layer in described["layers"]:
        table.add_row(str(layer["index"]), escape(layer["name"]), *cells(layer["cores"][core], layer["macs"]))
    table.add_section()
    totals = described["totals"]
    macs = sum(layer["macs"] for layer in described["layers"])
    table.add_row("", "one by one", *cells(totals["cores"][core], macs), style="bold")
    return table


def _print_stacks(console: Console, described: dict[str, Any], own: bool, objective: str) -> None:
    stacks = described["stacks"]
    what = {"latency": "latency", "dram": "DRAM bytes", "energy": "energy"}[objective]
    title = "The stack asked for" if own else f"Stacks that save the most {what}"
    console.print(f"{title}, beside its layers one by one on the fastest core", style="bold")
    if not stacks:
        console.print("none saves any")
        return
    from rich.markup import escape

    table = _bare_table()
    table.add_column("layers", no_wrap=True, overflow="ellipsis", max_width=32)
    table.add_column("mode", no_wrap=True)
    table.add_column("cores", no_wrap=True)
    for heading in ("band", "cycles", "DRAM B", "link B", "SRAM B", "energy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("latency", "DRAM", "energy"):
        table.add_column(f"saved\n{heading}", justify="right", no_wrap=True)
    for stack in stacks:
        table.add_row(
            escape(f"{stack['first']} {stack['layers'][0]} to {stack['last']} {stack['layers'][-1]}"),
            stack["mode"],
            escape(_two_a_line(stack["cores"])),
            _band(stack),
            _scaled(stack["latency_cycles"]),
            *(_scaled(stack[name]) for name in ("dram_bytes", "link_bytes", "sram_bytes")),
            _scaled(stack["energy_pj"] * 1e-12, "J"),
            *(_saved(stack, name) for name in ("latency_cycles", "dram_bytes", "energy_pj")),
        )
    console.print(table)
    if own:
        return
    for mode in dict.fromkeys(stack["mode"] for stack in stacks):
        chosen = [stack for stack in stacks if stack["mode"] == mode]
        seconds = sum(
            (stack["serial"]["latency_cycles"] - stack["latency_cycles"]) / stack["clock_hz"]
            for stack in chosen
        )
        dram = sum(stack["serial"]["dram_bytes"] - stack["dram_bytes"] for stack in chosen)
        energy = sum(stack["serial"]["energy_pj"] - stack["energy_pj"] for stack in chosen)
        console.print(
            f"{mode}: {_scaled(seconds, 's')}, {_scaled(dram, 'B')} of DRAM traffic and "
            f"{_scaled(energy * 1e-12, 'J')} saved in all",
            highlight=False,
        )


def _band(stack: dict[str, Any]) -> str:
    return "" if stack["band_rows"] is None else f"{stack['band_rows']} {stack['axis']}"


def _two_a_line(names: Sequence[str]) -> str:
    return ",\n".join(", ".join(names[at : at + 2]) for at in range(0, len(names), 2))


def _saved(stack: dict[str, Any], name: str) -> str:
    before = stack["serial"][name]
    return f"{(before - stack[name]) / before:.1%}" if before else ""


def _bare_table() -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def _scaled(value: float, unit: str = "") -> str:
    """Four significant digits with a decimal prefix; plain counts have none below 1."""
    gap = " " if unit else ""
    if not unit and abs(value) < 1:
        return f"{value:.2g}"
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.4g}{gap}{prefix}{unit}"
    return f"0{gap}{unit}"
