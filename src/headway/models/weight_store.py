"""A folder for the files of one split model, and models written there with their weights beside them.

Weights lie in one file that ONNX Runtime maps into memory, so all sessions of all blocks, and all
processes, read the same pages. Nothing of more than 2 GiB is ever one protobuf message.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.node_order import bodies_of
from headway.models.ordered_graph import bodies_within

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

EXTERNAL_FROM_BYTES: Final = (
    1024  # smaller initialisers stay in the graph: shapes and axes are read from there
)
_ALIGNMENT_BYTES: Final = 64  # one cache line
_CHUNK_BYTES: Final = 1 << 24
_DATA_FIELDS: Final = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data")


class Workspace:
    """A temporary folder that goes away with the object that owns it, or when the interpreter ends.

    A copy that travelled to another process by pickling does not own the folder.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headway-split-"))
        self._finalizer: Any = weakref.finalize(self, _remove, self.folder, os.getpid())

    def close(self) -> None:
        """Remove the folder. Sessions that are open keep the weights they have mapped."""
        if self._finalizer is not None:
            self._finalizer()

    def give_away(self) -> None:
        """Own the folder no more; another process is about to `adopt` it."""
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None

    def adopt(self) -> None:
        """Own the folder that another process gave away: it goes away with this object."""
        self._finalizer = weakref.finalize(self, _remove, self.folder, os.getpid())

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "_finalizer": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _remove(folder: Path, owner: int) -> None:
    # A forked child inherits the finalizer, but not the folder.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def detach_weights(model: ModelProto, source_folder: str, data_path: Path, *, where: str) -> ModelProto:
    """Write a model's weights to `data_path` and return a copy of the model that refers to that file.

    The given model is not changed. The copy runs from any path beside `data_path`. Weights that lie in
    files under `source_folder` are copied piece by piece. Annotations of shapes, which may be stale, are
    left out.

    Raises:
        HeadwayError: external data is missing or shorter than a tensor says.
    """
    light = _without_data(model)
    with data_path.open("wb") as data:
        for given, kept in zip(model.graph.initializer, light.graph.initializer, strict=True):
            _store_tensor(given, kept, source_folder, data, data_path.name, where)
    _bring_in(light, source_folder, where)
    return light


def _bring_in(model: ModelProto, folder: str, where: str) -> None:
    # External data of attributes and bodies: few and small, so it goes into the graph.
    from onnx import TensorProto, external_data_helper

    inner = [tensor for body in bodies_within(model.graph) for tensor in body.initializer]
    for tensor in (*inner, *_attribute_tensors(model.graph.node)):
        if tensor.data_location == TensorProto.EXTERNAL:
            if not folder:
                raise HeadwayError(f"{where}: tensor {tensor.name!r}: its external data is absent")
            external_data_helper.load_external_data_for_tensor(tensor, folder)
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]


def _attribute_tensors(nodes: Iterable[NodeProto]) -> Iterable[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for body in bodies_of(node):
            yield from _attribute_tensors(body.node)


def _without_data(model: ModelProto) -> ModelProto:
    """A copy whose initialisers have names, types and shapes, but no data; annotations are left out."""
    from onnx import ModelProto, TensorProto

    copy = ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    copy.graph.name = model.graph.name or "graph"
    copy.graph.node.extend(model.graph.node)
    copy.graph.input.extend(model.graph.input)
    copy.graph.output.extend(model.graph.output)
    copy.graph.sparse_initializer.extend(model.graph.sparse_initializer)
    for tensor in model.graph.initializer:
        copy.graph.initializer.append(
            TensorProto(name=tensor.name, data_type=tensor.data_type, dims=list(tensor.dims))
        )
    return copy


def _store_tensor(
    given: TensorProto, kept: TensorProto, source_folder: str, data: Any, location: str, where: str
) -> None:
    from onnx import TensorProto, numpy_helper

    if given.data_location == TensorProto.EXTERNAL:
        start = _padded(data)
        length = _copy_external(given, source_folder, data, where)
    else:
        raw = given.raw_data
        if len(raw) < EXTERNAL_FROM_BYTES and sum(len(getattr(given, f)) for f in _DATA_FIELDS[1:]) < 128:
            kept.CopyFrom(given)
            return
        if given.data_type == TensorProto.STRING:
            kept.CopyFrom(given)
            return
        if not raw:
            # Typed fields hold one number per element, packed types two: let ONNX lay them out.
            raw = numpy_helper.from_array(numpy_helper.to_array(given)).raw_data
        start = _padded(data)
        length = len(raw)
        data.write(raw)
    kept.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(start)), ("length", str(length))):
        entry = kept.external_data.add()
        entry.key, entry.value = key, value


def _padded(data: Any) -> int:
    position: int = data.tell()
    data.write(b"\0" * (-position % _ALIGNMENT_BYTES))
    return int(data.tell())


def _copy_external(tensor: TensorProto, source_folder: str, data: Any, where: str) -> int:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = Path(source_folder) / entries.get("location", "")
    start = int(entries.get("offset", 0))
    if not source_folder or not path.is_file():
        raise HeadwayError(
            f"{where}: tensor {tensor.name!r}: external data {entries.get('location')!r} is absent"
        )
    length = int(entries.get("length") or path.stat().st_size - start)
    left = length
    with path.open("rb") as source:
        source.seek(start)
        while left and (chunk := source.read(min(left, _CHUNK_BYTES))):
            data.write(chunk)
            left -= len(chunk)
    if left:
        raise HeadwayError(
            f"{where}: tensor {tensor.name!r}: external data {path.name!r} is {left} bytes too short"
        )
    return length
