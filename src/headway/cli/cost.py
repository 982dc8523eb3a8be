"""`headway cost`: what each layer costs on each core, term by term, and which stacks are worth fusing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.model_argument import Dim, ModelArgument, parsed_sizes
from headway.core.block import Mode
from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.core.device import Device
    from headway.cost.stacks import PricedStack
    from headway.models.graph import Graph


class _StackMode(StrEnum):
    FUSED = "fused"
    PIPELINE = "pipeline"
    SPLIT = "split"


class _Overlap(StrEnum):
    PHYSICAL = "physical"
    ZIGZAG = "zigzag"


class _Objective(StrEnum):
    LATENCY = "latency"
    DRAM = "dram"
    ENERGY = "energy"


class _Precision(StrEnum):
    FOUR = "4"
    EIGHT = "8"
    SIXTEEN = "16"
    THIRTY_TWO = "32"


def register(app: typer.Typer) -> None:
    """Add the command `cost` to the command line."""
    app.command("cost")(_cost)


def _cost(
    model: ModelArgument,
    hardware: Annotated[
        str,
        typer.Option("--hardware", help="A preset's name, or the path of a .yaml or .cfg file."),
    ],
    mapping: Annotated[
        Path | None,
        typer.Option(
            "--mapping",
            metavar="FILE",
            help="ZigZag's mapping file, which says what loops the array of its accelerator unrolls.",
        ),
    ] = None,
    dim: Dim = None,
    precision: Annotated[
        _Precision | None,
        typer.Option("--precision", help="Bits of an operand, instead of the hardware's `operand_bits`."),
    ] = None,
    overlap: Annotated[
        _Overlap,
        typer.Option("--overlap", help="How loads beside computation count; zigzag copies that tool."),
    ] = _Overlap.PHYSICAL,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack",
            metavar="FIRST:LAST",
            help="Price this stack, layers by name or number, instead of looking for the best ones.",
        ),
    ] = None,
    mode: Annotated[
        _StackMode | None, typer.Option("--mode", help="How the stack runs; fused on one core by default.")
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option("--cores", metavar="NAME,NAME", help="The cores it runs on, for a pipeline by stage."),
    ] = None,
    band_rows: Annotated[
        int | None,
        typer.Option(
            "--band-rows",
            min=1,
            help="Output rows of the last layer that go through the stack at once; the best by default.",
        ),
    ] = None,
    objective: Annotated[
        _Objective, typer.Option("--save", help="What the best stacks are to save.")
    ] = _Objective.LATENCY,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    csv_file: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write a line per layer and core; - prints them."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.html", help="Write latency bars and the roofline as a page."),
    ] = None,
) -> None:
    """Show what each layer of a model costs on each core: latency by its terms, bytes by memory, energy.

    Every layer is alone on the device, with nothing of it on the core before. Cycles are those of each core's
    clock. Cores that are alike are shown once. docs/cost-command.md explains each number.
    """
    prints_csv = csv_file is not None and str(csv_file) == "-"
    if as_json and prints_csv:
        raise HeadwayError("--json and --csv -: both would be printed; accepted: one of them")
    if stack is None:
        for option, value in (("--mode", mode), ("--cores", cores), ("--band-rows", band_rows)):
            if value is not None:
                raise HeadwayError(f"{option} says how a stack of one's own runs; found without --stack")
    from rich.console import Console

    from headway.cli.cost_document import csv_text, document

    with Console(stderr=True).status(f"Reading {model}") as status:
        graph, device = _given(model, dim, _with_mapping(hardware, mapping), precision)
        status.update(f"Pricing {graph.name} on {device.name}")
        from headway.cost.breakdown import layer_terms

        terms = layer_terms(graph, device, overlap.value)
        stacks = _stacks(graph, device, stack, Mode(mode or Mode.FUSED), cores, band_rows, objective)
    described = document(graph, device, terms, stacks, overlap.value)
    for warning in graph.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if plot is not None:
        from headway.record.cost_page import write_cost_page

        write_cost_page(plot, described)
    if csv_file is not None and not prints_csv:
        csv_file.write_text(csv_text(described), encoding="utf-8")
    if as_json:
        from headway.record.results import finite

        typer.echo(json.dumps(finite(described), indent=2))
    elif prints_csv:
        typer.echo(csv_text(described), nl=False)
    else:
        from headway.cli.cost_table import print_costs

        print_costs(described, own_stack=stack is not None, objective=objective.value)
        for path in (csv_file, plot):
            if path is not None:
                typer.echo(f"wrote {path}")


def _with_mapping(hardware: str, mapping: Path | None) -> str:
    """The accelerator's file with that of its mapping, as descriptions of hardware are named."""
    if mapping is None:
        return hardware
    if not hardware.endswith((".yaml", ".yml")):
        raise HeadwayError(
            f"--mapping {mapping}: it belongs to an accelerator of ZigZag; found --hardware {hardware}; "
            "accepted: its .yaml file"
        )
    return f"{hardware}#{mapping.absolute()}"


def _given(
    model: str, dim: list[str] | None, hardware: str, precision: _Precision | None
) -> tuple[Graph, Device]:
    """The model as the device runs it, and the device."""
    from dataclasses import replace

    from headway.config import load_hardware
    from headway.models import at_width, load_model, merge

    device = load_hardware(hardware)
    if device.has_lanes:
        raise HeadwayError(
            f"--hardware {hardware}: it has lanes, on which times are measured, not computed; accepted: "
            "hardware with cores"
        )
    if precision is not None:
        device = replace(device, operand_bytes=int(precision) / 8)
    graph = load_model(model, dims=parsed_sizes(dim))
    if not graph.layers:
        raise HeadwayError(f"{model}: it has no layers, so nothing costs anything")
    return merge(at_width(graph, device.operand_bytes)), device


def _stacks(
    graph: Graph,
    device: Device,
    layers: str | None,
    mode: Mode,
    cores: str | None,
    band_rows: int | None,
    objective: _Objective,
) -> list[tuple[PricedStack, Sequence[str]]]:
    """The stack asked for, or the best fused ones and the best pipelines."""
    from headway.cli.cost_document import cores_of
    from headway.cli.stack_request import stack_of
    from headway.cost.stacks import best_stacks
    from headway.cost.table import build_table

    table = build_table(graph, device)
    if layers is not None:
        return [stack_of(graph, device, table, layers, mode, cores, band_rows)]
    found: list[Any] = []
    for each in (Mode.FUSED, Mode.PIPELINE):
        found += best_stacks(table, device, each, objective.value)
    return [(stack, cores_of(device, stack.option.kinds)) for stack in found]
