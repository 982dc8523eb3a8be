"""Writing a zoo model to disk, with its weights in a file beside it where one file cannot hold them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    import onnx

# A protobuf message ends at 2 GiB; the rest is left for the graph itself.
EXTERNAL_ABOVE_BYTES = 3 * 2**29


def save(
    model: onnx.ModelProto,
    path: Path,
    *,
    overwrite: bool = False,
    external_above_bytes: int = EXTERNAL_ABOVE_BYTES,
) -> tuple[Path, ...]:
    """Write ``model`` to ``path`` and return the files written, the model's first.

    Weights of more than ``external_above_bytes`` in all go to ``<path>.data`` as ONNX external data; they are
    then taken out of ``model``.

    Raises HeadwayError if the name does not end in .onnx, the folder is missing, or a file is there already
    and ``overwrite`` is not set.
    """
    import onnx

    check_target(path, overwrite=overwrite)
    weight_bytes = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    if weight_bytes <= external_above_bytes:
        onnx.save_model(model, path)
        return (path,)
    data_path = path.with_name(f"{path.name}.data")
    _refuse_existing(data_path, overwrite)
    data_path.unlink(missing_ok=True)  # onnx would append to the old one
    onnx.save_model(model, path, save_as_external_data=True, location=data_path.name)
    return path, data_path


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise the HeadwayError that ``save`` would raise for this path, before a model is built for it."""
    if path.suffix != ".onnx":
        raise HeadwayError(f"{path}: the name ends in {path.suffix!r}; accepted: .onnx")
    if not path.parent.is_dir():
        raise HeadwayError(f"{path}: there is no folder {path.parent}")
    _refuse_existing(path, overwrite)


def _refuse_existing(file: Path, overwrite: bool) -> None:
    if file.is_dir():
        raise HeadwayError(f"{file}: is a folder; accepted: the name of a file")
    if file.exists() and not overwrite:
        raise HeadwayError(f"{file}: exists already; accepted: a new name, or --force to overwrite it")
