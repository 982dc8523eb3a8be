"""`headway hardware`: the presets, and what a description stands for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headway.config import Hardware, LaneHardware, StreamHardware
    from headway.core.device import Core, Device

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the application."""
    group = typer.Typer(no_args_is_help=True, help="List and show hardware descriptions.")
    group.command("list")(_list)
    group.command("show")(_show)
    app.add_typer(group, name="hardware")


def _list(as_json: _Json = False) -> None:
    """List the hardware presets."""
    from headway.config import StreamHardware, describe_hardware, load_hardware, preset_names

    devices = [load_hardware(name) for name in preset_names()]
    if as_json:
        typer.echo(json.dumps([_summary(device) for device in devices], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("preset", "cores", "peak", "SRAM", "DRAM", box=None, pad_edge=False)
    for device in devices:
        summary = _summary(device)
        if device.has_lanes:
            described = describe_hardware(device.name)
            streams = isinstance(described, StreamHardware)
            words = _streams(described) if isinstance(described, StreamHardware) else _lanes(device)
            table.add_row(device.name, words, "predicted" if streams else "measured", "", "")
            continue
        cores = ", ".join(
            f"{count} of {_array(core)}"
            for count, core in zip(device.kind_counts, device.exemplars, strict=True)
        )
        table.add_row(
            device.name,
            cores,
            _rate(summary["peak_macs_s"]),
            _size(summary["sram_bytes"]),
            f"{device.dram_bandwidth_bytes_s / 1e9:g} GB/s",
        )
    Console().print(table)
    typer.echo("\nMore: headway hardware show NAME")


def _array(core: Core) -> str:
    if core.hierarchy is not None:
        return f"{core.hierarchy.units} mapped units"
    return f"{core.rows}x{core.columns} {core.dataflow}"


def _rate(macs_s: float) -> str:
    return f"{macs_s / 1e12:.3g} TMAC/s" if macs_s >= 1e12 else f"{macs_s / 1e9:.3g} GMAC/s"


def _size(count: float) -> str:
    return f"{count / 2**20:.3g} MiB" if count >= 2**20 else f"{count / 2**10:.3g} KiB"


def _show(
    hardware: Annotated[
        str,
        typer.Argument(
            help="A preset's name, or the path of a .yaml or .cfg file; ZigZag's accelerator may go with "
            "#MAPPING.yaml."
        ),
    ],
    as_json: _Json = False,
) -> None:
    """Show a hardware description, its source, and what was assumed.

    The JSON is a description that loads again, with every default in it.
    """
    from headway.config import LaneHardware, StreamHardware, describe_hardware

    description = describe_hardware(hardware)
    if as_json:
        typer.echo(json.dumps(description.to_mapping(), indent=2, ensure_ascii=False))
    elif isinstance(description, LaneHardware):
        _print_lanes(description)
    elif isinstance(description, StreamHardware):
        _print_streams(description)
    else:
        _print(description)


def _lanes(device: Device) -> str:
    threads = device.cores[0].threads
    lanes = f"{len(device.cores)} lane{'s' if len(device.cores) > 1 else ''}"
    return f"{lanes} of {threads} thread{'s' if threads > 1 else ''}, on this machine"


def _streams(description: StreamHardware) -> str:
    count = description.streams
    return f"{count} stream{'s' if count > 1 else ''} of a simulated {description.gpu}"


def _print_streams(description: StreamHardware) -> None:
    written = description.to_mapping()
    overlap = description.overlap
    _print_facts(
        description.name,
        {
            "streams": _streams(description),
            "blocks": f"about {written['block']}",
            "overhead": f"{written['dispatch_overhead']} per run",
            "overlap loss": overlap if isinstance(overlap, str) else f"{overlap:g}",
            "source": description.source or "not said",
            "assumptions": description.assumptions or "none said",
        },
    )


def _print_lanes(description: LaneHardware) -> None:
    overlap = description.overlap
    _print_facts(
        description.name,
        {
            "lanes": _lanes(description.device()),
            "isolation": description.isolation,
            "overlap loss": overlap if isinstance(overlap, str) else f"{overlap:g}",
            "source": description.source or "not said",
            "assumptions": description.assumptions or "none said",
        },
    )


def _print_facts(name: str, facts: dict[str, str], above: Table | None = None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(name, style="bold"))
    if above is not None:
        console.print(above)
    grid = Table.grid(padding=(0, 2))
    for key, fact in facts.items():
        grid.add_row(Text(key, style="dim"), Text(fact))
    console.print(grid)


def _print(description: Hardware) -> None:
    from rich.table import Table

    device, written = description.device(), description.to_mapping()
    summary = _summary(device)
    table = Table(
        "cores",
        "array",
        "dataflow",
        "clock",
        "SRAM",
        "lanes",
        "per MAC",
        "per SRAM byte",
        box=None,
        pad_edge=False,
    )
    for group, core in zip(description.cores, written["cores"], strict=True):
        names = list(group.names)
        table.add_row(
            names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}",
            " ".join(f"{loop} {factor}" for axis in group.axes for loop, factor in axis.items())
            or f"{group.rows}x{group.columns}",
            group.dataflow or "mapped",
            core["clock"],
            core.get("sram", f"{group.core(0, group.name, group.name).sram_bytes / 2**20:.3g} MiB"),
            str(group.lanes),
            core["energy"]["mac"],
            core["energy"]["sram"] if group.memories is None else "by memory",
        )
    facts = {
        "peak": f"{summary['peak_macs_s'] / 1e12:.4g} TMAC/s",
        "operands": f"{description.operand_bits} bit",
        "DRAM": f"{written['dram']['bandwidth']}, {written['dram']['energy']}"
        + (f", writes {written['dram']['write_energy']}" if "write_energy" in written["dram"] else ""),
        "shared L2": "{size}, {bandwidth}, {energy}".format(**written["l2"]) if description.l2 else "none",
        "link": f"{written['link']['bandwidth']}, {written['link']['energy']}"
        if description.link
        else "none",
        "overhead": f"{written['dispatch_overhead']} per run, {written['switch_overhead']} per band",
        "source": description.source or "not said",
        "assumptions": description.assumptions or "none said",
    }
    _print_facts(description.name, facts, table)


def _summary(device: Device) -> dict[str, Any]:
    if device.has_lanes:
        return {
            "name": device.name,
            "lanes": len(device.cores),
            "threads_per_lane": device.cores[0].threads,
            "source": device.source,
        }
    return {
        "name": device.name,
        "cores": len(device.cores),
        "kinds": dict(zip(device.kinds, device.kind_counts, strict=True)),
        "peak_macs_s": sum(core.rows * core.columns * core.clock_hz for core in device.cores),
        "sram_bytes": sum(core.sram_bytes for core in device.cores),
        "dram_bandwidth_bytes_s": device.dram_bandwidth_bytes_s,
        "source": device.source,
    }
