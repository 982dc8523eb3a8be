"""Models of every kind: ONNX files, the layer tables of other tools, and the zoo by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph
from headway.models.importers.shipped import is_shipped, read_shipped

if TYPE_CHECKING:
    from onnx import ModelProto

TABLE_SUFFIXES: Final = (".csv", ".m", ".yaml", ".yml")
"""How the names of layer tables end: SCALE-Sim's, MAESTRO's, ZigZag's."""


def load_model(
    path: str | os.PathLike[str] | ModelProto,
    *,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    check_runtime: bool = False,
) -> Graph:
    """Read a model as a graph of layers.

    Args:
        path: an ONNX file or a model in memory; or a layer table, told by how its name ends: a topology of
            SCALE-Sim (.csv, with #scalesim after it for that tool's output sizes), a workload of ZigZag
            (.yaml), a table of MAESTRO or XRBench (.m, with #NETWORK after it where it holds several); or,
            where there is no file of that name, a model of the zoo, which is built without weights, or a
            shipped table of XRBench (xrbench/NETWORK).
        dims: sizes of symbolic dimensions of an ONNX model, by name or as INPUT.AXIS; others get a default
            that is said in `Graph.dims_assumed` and `Graph.warnings`. For a zoo model, its options.
        name: the graph's name; by default the file's, else the model's own.
        check_runtime: also ask ONNX Runtime whether it takes the model (`Graph.runnable`, `Graph.refusal`);
            not asked of models without weights.

    Raises:
        HeadwayError: neither a file nor a model of the zoo, a file that is not a model of its kind, a graph
            that is not well formed, sizes that contradict the file or each other, external data outside the
            model's folder, or a field of a table that has no counterpart.
    """
    if isinstance(path, str) and _may_be_of_the_zoo(path):
        return load_model(zoo_model(path, dims or {}, weights=False), name=name or path)
    if isinstance(path, str) and is_shipped(path) and not Path(path).exists():
        if dims:
            raise HeadwayError(f"{path}: found sizes of {', '.join(dims)}; a layer table has none to give")
        graph = read_shipped(path)
        return graph if name is None else graph.renamed(name)
    if isinstance(path, (str, os.PathLike)):
        file, part = file_and_part(path)
        if file.suffix.lower() in TABLE_SUFFIXES:
            if dims:
                raise HeadwayError(
                    f"{file}: found sizes of {', '.join(dims)}; a layer table has none to give"
                )
            graph = _table(file, part)
            return graph if name is None else graph.renamed(name)
    from headway.models import onnx_reader

    return onnx_reader.load_model(path, dims=dims, name=name, check_runtime=check_runtime)


def zoo_model(name: str, options: Mapping[str, int], *, weights: bool) -> ModelProto:
    """A zoo model with the options that a user gave it, `batch` and `seed` among them.

    Raises HeadwayError for an unknown model or option.
    """
    from headway.models import zoo

    for option in options:
        if option in ("name", "weights"):  # parameters of `build`, not options
            accepted = ["batch", "seed", *(known.name for known in zoo.describe(name).options)]
            raise HeadwayError(
                f"zoo model {name!r}: no option named {option!r}; accepted: {', '.join(accepted)}"
            )
    return zoo.build(name, weights=weights, **options)


def zoo_source(name: str, options: Mapping[str, int], most_batch: int) -> ModelProto:
    """A zoo model with weights, its batch left open if requests shall run together.

    Raises HeadwayError for an unknown model or option, and for batches of requests that are batches.
    """
    built = zoo_model(name, options, weights=True)
    if most_batch == 1:
        return built
    if options.get("batch", 1) != 1:
        raise HeadwayError(
            f"zoo model {name!r}: option batch is {options['batch']}, and requests shall run together;"
            " accepted: one of the two"
        )
    from headway.models.batch_axis import with_open_batch

    return with_open_batch(built)


def _may_be_of_the_zoo(name: str) -> bool:
    """Whether a name can only be one of the zoo's. Raises HeadwayError if it then is none."""
    from headway.models import zoo

    file = Path(name)
    suffix = file.suffix.partition("#")[0].lower()
    if file.exists() or file.name != name or suffix in (".onnx", *TABLE_SUFFIXES):
        return False
    if name not in zoo.names():
        raise HeadwayError(
            f"{name}: no such file, and no model of the zoo; the zoo has {', '.join(zoo.names())}"
        )
    return True


def file_and_part(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """A file, and which part of it is meant: `tables.m#NETWORK`, unless a file has just that name."""
    whole = Path(path)
    stem, separator, part = whole.name.rpartition("#")
    if separator and stem.lower().endswith(TABLE_SUFFIXES) and not whole.exists():
        return whole.with_name(stem), part
    return whole, None


def _table(file: Path, part: str | None) -> Graph:
    suffix = file.suffix.lower()
    if suffix == ".m":
        from headway.models.importers.maestro_table import read_maestro_table

        return read_maestro_table(file, part)
    if suffix == ".csv":
        from headway.models.importers.scalesim_topology import read_scalesim_topology

        if part not in (None, "scalesim"):
            raise HeadwayError(f"{file}: found #{part}; accepted: #scalesim, for that tool's output sizes")
        return read_scalesim_topology(file, "true" if part is None else "scalesim")
    if part is not None:
        raise HeadwayError(f"{file}: only a table that ends in .m has parts; found #{part}")
    from headway.models.importers.zigzag_workload import read_zigzag_workload

    return read_zigzag_workload(file)
