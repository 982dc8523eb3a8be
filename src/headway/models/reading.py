"""Model files of every kind: ONNX, and the layer tables of other tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.models.graph import Graph

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
            SCALE-Sim (.csv), a workload of ZigZag (.yaml), a table of MAESTRO or XRBench (.m, with #NETWORK
            after it where it holds several).
        dims: sizes of symbolic dimensions of an ONNX model, by name or as INPUT.AXIS; others get a default
            that is said in `Graph.dims_assumed` and `Graph.warnings`.
        name: the graph's name; by default the file's, else the model's own.
        check_runtime: also ask ONNX Runtime whether it takes the model (`Graph.runnable`, `Graph.refusal`).

    Raises:
        HeadwayError: a file that is not there or not a model of its kind, a graph that is not well formed,
            sizes that contradict the file or each other, external data outside the model's folder, or a field
            of a table that has no counterpart.
    """
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
    if part is not None:
        raise HeadwayError(f"{file}: only a table that ends in .m has parts; found #{part}")
    if suffix == ".csv":
        from headway.models.importers.scalesim_topology import read_scalesim_topology

        return read_scalesim_topology(file)
    from headway.models.importers.zigzag_workload import read_zigzag_workload

    return read_zigzag_workload(file)
