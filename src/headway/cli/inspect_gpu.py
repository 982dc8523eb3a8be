"""`headway inspect MODEL --gpu NAME`: latency on a GPU that need not be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from headway.models.graph import Graph
    from headway.wiring.gpu import GpuEstimate

_BLOCKS = 8

Gpu = Annotated[
    str | None,
    typer.Option(
        "--gpu",
        metavar="NAME|FILE",
        help="Estimate the latency on this GPU, block by block: a100-pcie-40gb, h100-sxm, l4, t4, v100 and "
        "others, or a YAML or JSON file with bandwidth_gb_s, sms, clock_mhz, fp32_gflops and l2_mb. Float32.",
        show_default=False,
    ),
]


def estimate(graph: Graph, gpu: str) -> GpuEstimate:
    """The estimate for a graph. Raises HeadwayError for a GPU or a precision that is not known."""
    from headway.wiring.gpu import gpu_estimate

    return gpu_estimate(graph, gpu, _BLOCKS)


def document(graph: Graph, found: GpuEstimate) -> dict[str, Any]:
    """The estimate as JSON has it."""
    device = found.device
    return {
        "device": {
            "name": device.name,
            "bandwidth_gb_s": device.bandwidth_gb_s,
            "sms": device.sms,
            "clock_mhz": device.clock_mhz,
            "fp32_gflops": device.fp32_gflops,
            "l2_mb": device.l2_mb,
            "power_w": device.power_w,
            "process_nm": device.process_nm,
            "note": device.note,
        },
        "precision": "float32",
        "measured": found.measured,
        "level": found.level,
        "latency_s": {
            "middle": sum(block.middle_s for block in found.blocks),
            "low": sum(block.low_s for block in found.blocks),
            "high": sum(block.high_s for block in found.blocks),
        },
        "extrapolated_share": _extrapolated_share(found),
        "extrapolated": _reasons(found),
        "blocks": [
            {
                "first_layer": graph.layers[block.first].name,
                "last_layer": graph.layers[block.end - 1].name,
                "layers": block.end - block.first,
                "kernels": block.kernels,
                "latency_s": {"middle": block.middle_s, "low": block.low_s, "high": block.high_s},
                "extrapolated_share": block.extrapolated_share,
                "compute_share": demand.compute,
                "bandwidth_share": demand.bandwidth,
                "occupancy": demand.occupancy,
            }
            for block, demand in zip(found.blocks, found.demands, strict=True)
        ],
    }


def table(graph: Graph, found: GpuEstimate) -> Table:
    """The blocks as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown.add_column("block", justify="right", no_wrap=True)
    shown.add_column("layers", no_wrap=True, overflow="ellipsis", min_width=8)
    titles = ("kernels", "ms", "low", "high", "compute", "bandwidth", "occupancy", "extrapolated")
    for title in titles:
        shown.add_column(title, justify="right", no_wrap=True)
    for index, (block, demand) in enumerate(zip(found.blocks, found.demands, strict=True)):
        first, last = graph.layers[block.first].name, graph.layers[block.end - 1].name
        shown.add_row(
            str(index),
            escape(f"{first} … {last}" if block.end - block.first > 1 else first),
            str(block.kernels),
            *(f"{seconds * 1e3:.4g}" for seconds in (block.middle_s, block.low_s, block.high_s)),
            *(f"{share:.0%}" for share in (demand.compute, demand.bandwidth, demand.occupancy)),
            f"{block.extrapolated_share:.0%}",
        )
    return shown


def summary(graph: Graph, found: GpuEstimate) -> list[str]:
    """What to say under the table: the total, where it comes from, and what is a guess."""
    middle, low, high = (
        sum(getattr(block, name) for block in found.blocks) * 1e3 for name in ("middle_s", "low_s", "high_s")
    )
    device = found.device
    lines = [
        f"{graph.name} on {device.name}: {middle:.4g} ms, {low:.4g} to {high:.4g} ms; float32, kernel "
        "by kernel"
    ]
    if found.measured:
        lines.append("kernels of this GPU were measured")
    else:
        lines.append("this GPU was not measured: carried over from others by its description")
        if device.power_w is None:
            lines.append("no power_w and process_nm: the board is taken to sustain its peak")
    lines.append(
        f"interval: kernels' {found.level:.0%} intervals, summed, since errors on one GPU go together"
    )
    share = _extrapolated_share(found)
    if share:
        lines.append(f"extrapolated: {share:.1%} of the time, in operators without measured rows:")
        lines += [f"  {reason}" for reason in _reasons(found)]
    if device.note:
        lines.append(f"device: {device.note}")
    return lines


def _extrapolated_share(found: GpuEstimate) -> float:
    total_s = sum(block.middle_s for block in found.blocks)
    outside_s = sum(block.middle_s * block.extrapolated_share for block in found.blocks)
    return outside_s / total_s if total_s else 0.0


def _reasons(found: GpuEstimate) -> list[str]:
    return list(dict.fromkeys(reason for block in found.blocks for reason in block.reasons))
