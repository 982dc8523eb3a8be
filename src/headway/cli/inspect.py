"""`headway inspect`: what a model costs, layer by layer."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli import inspect_gpu, inspect_predict
from headway.cli.model_argument import Dim, ModelArgument, parsed_sizes
from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from rich.table import Table

    from headway.models.graph import Graph, Layer


_FILE_WIDTH = 140  # of a table that goes to a file or a pipe


def register(app: typer.Typer) -> None:
    """Add the command `inspect` to the command line."""
    app.command("inspect")(_inspect)


def _inspect(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    dim: Dim = None,
    merged: Annotated[
        bool,
        typer.Option(
            "--merged", help="Fold activations, residual sums and views into the layers before them."
        ),
    ] = False,
    runtime: Annotated[
        bool, typer.Option("--runtime/--no-runtime", help="Ask ONNX Runtime whether it takes the file.")
    ] = True,
    gpu: inspect_gpu.Gpu = None,
    predict: inspect_predict.Predict = False,
    threads: inspect_predict.Threads = 1,
) -> None:
    """Show a model's layers with their loop dimensions, multiply-accumulates, parameters and bytes.

    MACs are counted from shapes, padding included. Bytes are those of the stored types. An operator without a
    formula is priced by an analytic bound, named and counted. With --gpu, the latency of each block there.
    """
    from rich.console import Console

    from headway.models import load_model, merge

    sizes = parsed_sizes(dim)
    if predict:
        if gpu is not None:
            raise HeadwayError("--predict and --gpu: accepted: one of them, for lanes or for a GPU")
        inspect_predict.show(model, threads, sizes, as_json=as_json)
        return
    with Console(stderr=True).status(f"Reading {model}"):
        graph = load_model(model, dims=sizes, check_runtime=runtime)
    if merged:
        graph = merge(graph)
    for warning in graph.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    found = None if gpu is None else inspect_gpu.estimate(graph, gpu)
    if as_json:
        document = _document(graph)
        if found is not None:
            document["gpu"] = inspect_gpu.document(graph, found)
        typer.echo(json.dumps(document, indent=2))
        return
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    console.print(_table(graph) if found is None else inspect_gpu.table(graph, found))
    for line in _summary(graph) if found is None else inspect_gpu.summary(graph, found):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _document(graph: Graph) -> dict[str, Any]:
    return {
        "name": graph.name,
        "source": graph.source,
        "content_hash": graph.content_hash,
        "totals": {
            "layers": len(graph.layers),
            "macs": graph.macs,
            "vector_ops": sum(layer.vector_ops for layer in graph.layers),
            "params": graph.params,
            "weight_bytes": graph.weight_bytes,
            "activation_bytes": graph.activation_bytes,
        },
        "inputs": {name: list(shape) for name, shape in graph.inputs.items()},
        "outputs": {name: list(shape) for name, shape in graph.outputs.items()},
        "dims": {
            name: {"size": size, "assumed": name in graph.dims_assumed}
            for name, size in graph.dims_bound.items()
        },
        "weights_present": graph.weights_present,
        "runtime": {"runs": graph.runnable, "cause": graph.refusal},
        "unknown_ops": [
            {
                "op": key.rpartition(":")[2],
                "domain": key.rpartition(":")[0],
                "count": count,
                "nodes": list(graph.unknown_nodes.get(key, ())),
            }
            for key, count in graph.unknown_ops.items()
        ],
        "warnings": list(graph.warnings),
        "layers": [_layer_entry(layer) for layer in graph.layers],
    }


def _has_nest(layer: Layer) -> bool:
    """Whether the layer's loop dimensions say something: maps and moves have none."""
    return layer.kind.value in ("conv", "matmul", "pool", "recurrent")


def _layer_entry(layer: Layer) -> dict[str, Any]:
    dims = layer.dims
    nest = {
        "B": dims.B,
        "K": dims.K,
        "C": dims.C,
        "OY": dims.OY,
        "OX": dims.OX,
        "FY": dims.FY,
        "FX": dims.FX,
        "IY": dims.IY,
        "IX": dims.IX,
        "strides": [dims.stride_y, dims.stride_x],
        "padding": [dims.pad_top, dims.pad_left, dims.pad_bottom, dims.pad_right],
        "dilation": [dims.dilation_y, dims.dilation_x],
        "groups": dims.groups,
        "m": dims.m,
        "n": dims.n,
        "k": dims.k,
    }
    return {
        "index": layer.index,
        "name": layer.name,
        "op": layer.op,
        "kind": layer.kind.value,
        "dims": nest if _has_nest(layer) else {},
        "macs": layer.macs,
        "vector_ops": layer.vector_ops,
        "params": layer.params,
        "weight_bytes": layer.weight_bytes,
        "weight_dtype": layer.weight_dtype,
        "input_bytes": layer.input_bytes,
        "output_bytes": layer.output_bytes,
        "output_dtype": layer.output_dtype,
        "operands": [
            {
                "tensor": operand.tensor,
                "bytes": operand.bytes,
                "dtype": operand.dtype,
                "producer": operand.producer,
            }
            for operand in layer.operands
        ],
        "output": layer.output,
        "is_output": layer.is_output,
        "bounded": layer.bounded,
        "folded": list(layer.folded),
        "note": layer.note,
    }


def _dims_text(layer: Layer) -> str:
    dims = layer.dims
    if not _has_nest(layer):
        return ""
    if layer.kind.value in ("matmul", "recurrent"):
        batch = f"{dims.B}x " if dims.B > 1 else ""
        return f"{batch}M{dims.m} K{dims.k} N{dims.n}"
    parts = [f"K{dims.K} C{dims.C} OY{dims.OY} OX{dims.OX} FY{dims.FY} FX{dims.FX}"]
    if dims.B > 1:
        parts.insert(0, f"B{dims.B}")
    if (dims.stride_y, dims.stride_x) != (1, 1):
        parts.append(
            f"/{dims.stride_y}" if dims.stride_y == dims.stride_x else f"/{dims.stride_y},{dims.stride_x}"
        )
    if dims.groups > 1 and layer.kind.value == "conv":
        parts.append(f"g{dims.groups}")
    return " ".join(parts)


def _table(graph: Graph) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("layer", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("operator", no_wrap=True, overflow="ellipsis", min_width=8)
    table.add_column("dimensions", overflow="fold", min_width=12)
    for title in ("MACs", "params", "in", "out"):
        table.add_column(title, justify="right", no_wrap=True)
    for layer in graph.layers:
        operator = layer.op
        if layer.folded:
            operator += f" +{len(layer.folded)}"
        if layer.note.startswith("view"):
            operator += " (view)"
        if layer.bounded:
            operator += " (bound)"
        table.add_row(
            str(layer.index),
            escape(layer.name),
            escape(operator),
            _dims_text(layer),
            _count(layer.macs),
            _count(layer.params),
            _bytes(layer.input_bytes),
            _bytes(layer.output_bytes),
        )
    return table


def _count(number: int) -> str:
    for divisor, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= divisor:
            return f"{number / divisor:.4g}{unit}"
    return str(number)


def _bytes(number: int) -> str:
    for divisor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if number >= divisor:
            return f"{number / divisor:.4g} {unit}"
    return f"{number} B"


def _summary(graph: Graph) -> list[str]:
    lines = [
        f"{graph.name}: {len(graph.layers)} layers, {graph.macs:,} MACs, {graph.params:,} parameters "
        f"({_bytes(graph.weight_bytes)}), {_bytes(graph.activation_bytes)} of activations"
    ]
    if graph.dims_bound:
        shown = ", ".join(
            f"{name}={size}{' (assumed)' if name in graph.dims_assumed else ''}"
            for name, size in graph.dims_bound.items()
        )
        lines.append(f"dimensions: {shown}")
    lines += [
        f"{layer.name}: {layer.note}"
        for layer in graph.layers
        if layer.note and (layer.bounded or layer.kind.value == "other")
    ]
    for op, count in graph.unknown_ops.items():
        lines.append(f"no formula: {op}, {count} times, at {', '.join(graph.unknown_nodes.get(op, ()))}")
    if graph.runnable is None:
        lines.append("ONNX Runtime: not asked")
    elif graph.runnable:
        lines.append("ONNX Runtime: takes it")
    else:
        lines.append(f"ONNX Runtime: refuses it: {graph.refusal}")
    return lines
