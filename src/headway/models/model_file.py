"""An ONNX file on disk: read with all its mistakes named, its weights left where they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

_CHUNK_BYTES: Final = 1 << 20
_PROTOBUF_LIMIT_BYTES: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A parsed model. `folder` is "" for a model given as an object; external data then is absent."""

    model: ModelProto
    where: str  # how messages name it
    folder: str
    path: Path | None
    content_hash: str  # "" if it was not asked for
    data_bytes: int  # of the model and its external data; 0 if they were not hashed
    weights_present: bool
    warnings: tuple[str, ...]
    files: tuple[Path, ...] = ()  # those that are there


def read_model(source: str | os.PathLike[str] | ModelProto, *, hashed: bool = True) -> ModelFile:
    """Read a model from a path or take one that is in memory.

    With `hashed` false its content is not hashed; `hashed_content` does that later, maybe in another thread.

    Raises:
        HeadwayError: no such file, no ONNX in it, or external data that lies outside the model's folder.
    """
    from onnx import ModelProto

    if isinstance(source, ModelProto):
        where = source.graph.name or "model"
        _require_graph(source, where)
        absent = any(_is_external(tensor) for tensor in _all_tensors(source))
        content_hash, size = hashed_content(source, ()) if hashed else ("", 0)
        return ModelFile(source, where, "", None, content_hash, size, not absent, ())
    path = Path(source)
    where = str(path)
    model = _parse(path)
    _require_graph(model, where)
    files, warnings = _external_files(model, path)
    present = all(file.is_file() for file in files) and not warnings
    missing = [file for file in files if not file.is_file()]
    if missing:
        absent_file = missing[0].relative_to(path.parent.resolve()).as_posix()
        warnings.append(f"external data {absent_file!r} is absent: the model loads for simulation only")
    there = (path, *(file for file in files if file.is_file()))
    content_hash, size = hashed_content(model, there) if hashed else ("", 0)
    return ModelFile(
        model, where, str(path.parent), path, content_hash, size, present, tuple(warnings), there
    )


def hashed_content(model: ModelProto, files: Sequence[Path]) -> tuple[str, int]:
    """Content hash of a model that lies in these files, or in memory if there are none, and the bytes that it
    covers."""
    if not files:
        return _hash_in_memory(model)
    digest = hashlib.sha256()
    for file in files:
        _feed(digest, file)
    return digest.hexdigest(), sum(file.stat().st_size for file in files)


def _parse(path: Path) -> ModelProto:
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    if path.is_dir():
        raise HeadwayError(f"{path}: is a folder; accepted is an ONNX file")
    if not path.exists():
        raise HeadwayError(f"{path}: no such file")
    try:
        size = path.stat().st_size
        if size == 0:
            raise HeadwayError(f"{path}: the file is empty; accepted is an ONNX model")
        if size > _PROTOBUF_LIMIT_BYTES:
            raise HeadwayError(
                f"{path}: {size} bytes, more than the 2 GiB that one protobuf file can hold; "
                "save the weights as external data"
            )
        data = path.read_bytes()
    except OSError as error:
        raise HeadwayError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        model = ModelProto()
        model.ParseFromString(data)
        return model
    except DecodeError as error:
        raise HeadwayError(
            f"{path}: not an ONNX model, or one that was cut off or damaged ({error})"
        ) from error


def _require_graph(model: ModelProto, where: str) -> None:
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise HeadwayError(f"{where}: not an ONNX model: it holds no graph")
    if not _readable_text(model):
        raise HeadwayError(f"{where}: names in it are not UTF-8 text: the file is damaged")
    if not model.graph.node:
        raise HeadwayError(f"{where}: the graph has no nodes, so there is nothing to run")
    for tensor in _all_tensors(model):
        if any(size < 0 for size in tensor.dims):
            raise HeadwayError(
                f"{where}: tensor {tensor.name!r} has the shape {list(tensor.dims)}; sizes are 0 or more"
            )
    if not model.graph.output:
        raise HeadwayError(f"{where}: the graph has no outputs, so nothing in it is needed")


def _readable_text(model: ModelProto) -> bool:
    """Whether all names are text; protobuf hands damaged ones out as bytes, or raises."""
    try:
        graphs = (model.graph, *model.functions)
        texts = [entry.domain for entry in model.opset_import]
        for graph in graphs:
            texts += _texts(graph)
    except UnicodeDecodeError:
        return False
    return all(isinstance(text, str) for text in texts)


def _texts(graph: GraphProto | FunctionProto) -> Iterator[str]:
    from onnx import GraphProto

    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for body in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                yield from _texts(body)
    if not isinstance(graph, GraphProto):
        yield from (graph.name, graph.domain, *graph.input, *graph.output, *graph.attribute)
        return
    yield graph.name
    for tensor in _tensors(graph):
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from _symbols(value.type)


def _symbols(kind: TypeProto) -> Iterator[str]:
    """Names of dimensions in a type, those of what sequences and optionals hold included."""
    if kind.HasField("sequence_type"):
        yield from _symbols(kind.sequence_type.elem_type)
    elif kind.HasField("optional_type"):
        yield from _symbols(kind.optional_type.elem_type)
    else:
        yield from (dim.dim_param for dim in kind.tensor_type.shape.dim)


def _is_external(tensor: TensorProto) -> bool:
    from onnx import TensorProto

    return bool(tensor.data_location == TensorProto.EXTERNAL)


def _all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """All tensors of a model, those of its local functions included."""
    yield from _tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph, those of attributes and bodies included."""
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for body in attribute.graphs:
                yield from _tensors(body)


def _external_files(model: ModelProto, path: Path) -> tuple[list[Path], list[str]]:
    """Files that hold external data, each once, and warnings on those that are too short.

    The check comes before the question whether a file exists: a model cannot ask about files elsewhere.
    """
    folder = path.parent.resolve()
    files: dict[str, Path] = {}
    warnings: dict[str, None] = {}
    for tensor in _all_tensors(model):
        if not _is_external(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location not in files:
            files[location] = _inside(location, folder, tensor.name, path)
        file = files[location]
        if file.is_file():
            offset, length = (entries.get(key, "0") for key in ("offset", "length"))
            if not (offset.isdecimal() and length.isdecimal()):
                raise HeadwayError(
                    f"{path}: tensor {tensor.name!r}: offset {offset!r} and length {length!r} of external "
                    "data must be whole numbers from 0 on"
                )
            if int(offset) + int(length) > file.stat().st_size:
                warnings[
                    f"external data {location!r} is shorter than tensor {tensor.name!r} needs: "
                    "the model loads for simulation only"
                ] = None
    return list(files.values()), list(warnings)


def _inside(location: str, folder: Path, tensor: str, path: Path) -> Path:
    given = location.replace("\\", "/")
    outside = (
        not given or "\0" in given or given.startswith("/") or ".." in given.split("/") or given[1:2] == ":"
    )
    if not outside:
        resolved = (folder / given).resolve()
        outside = not resolved.is_relative_to(folder)
        if not outside:
            return resolved
    raise HeadwayError(
        f"{path}: tensor {tensor!r}: external data {location!r} leaves the model's folder; "
        "accepted is a relative path inside it"
    )


def _feed(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)


def _hash_in_memory(model: ModelProto) -> tuple[str, int]:
    """Content hash, and the bytes that it covers.

    Weights are hashed one by one: serialising the whole would copy them several times over, and fails beyond
    2 GiB.
    """
    digest = hashlib.sha256()
    size = 0

    def feed(data: bytes) -> None:
        nonlocal size
        digest.update(data)
        size += len(data)

    graph = model.graph
    parts = (
        *model.opset_import,
        *model.functions,
        *graph.node,
        *graph.input,
        *graph.output,
        *graph.sparse_initializer,
    )
    for part in parts:
        feed(part.SerializeToString(deterministic=True))
    for tensor in graph.initializer:
        if tensor.HasField("raw_data"):
            feed(f"{tensor.name}:{tensor.data_type}:{list(tensor.dims)}".encode())
            feed(tensor.raw_data)
        else:
            feed(tensor.SerializeToString(deterministic=True))
    return digest.hexdigest(), size
