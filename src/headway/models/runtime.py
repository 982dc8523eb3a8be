"""Questions to ONNX Runtime: does it take this model, and how large are the tensors nothing else could tell?

Both are asked in a process of their own with limits on time and memory, since a model is foreign input.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headway.models.model_file import ModelFile
from headway.models.tensors import Shape, Tensor

if TYPE_CHECKING:
    from onnx import ModelProto

_WORKER: Final = Path(__file__).with_name("runtime_worker.py")
_TIMEOUT_S: Final = 120
_MEMORY_BYTES: Final = 16 << 30
_MEMORY_FACTOR: Final = 4  # of the weights: read, copied into place, and packed for kernels
_SEED: Final = 0
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from \S+ failed:\s*)?")


class RuntimeRefusal(Exception):
    """ONNX Runtime does not take or run the model; the message is its cause."""


def check(file: ModelFile) -> None:
    """Create a session; raises RuntimeRefusal if ONNX Runtime does not."""
    with _on_disk(file, file.model) as path:
        _ask(file, path, {"task": "check"})


def measure_shapes(
    file: ModelFile, model: ModelProto, inputs: Mapping[str, Tensor], names: Iterable[str]
) -> dict[str, Sequence[Shape]]:
    """Shapes of tensors in one run on random inputs; for a sequence, of each member.

    `model` is the file's model, or that with its functions expanded, whose tensors `names` are. Inputs are
    seeded; integers are one, or zero if that fails.

    Raises:
        RuntimeRefusal: the model does not run.
    """
    specs = {
        name: {"shape": tensor.shape, "dtype": tensor.dtype, "sequence": tensor.sequence}
        for name, tensor in inputs.items()
    }
    request = {"task": "measure", "inputs": specs, "outputs": sorted(set(names)), "seed": _SEED}
    with _on_disk(file, model) as path:
        reply = _ask(file, path, request)
    return {name: [tuple(shape) for shape in shapes] for name, shapes in reply["shapes"].items()}


@contextmanager
def _on_disk(file: ModelFile, model: ModelProto) -> Iterator[Path]:
    if file.path is not None and model is file.model:
        yield file.path
        return
    try:
        data = model.SerializeToString()
    except ValueError as error:
        raise RuntimeRefusal("more than the 2 GiB that one protobuf message can hold") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        yield path


def _ask(file: ModelFile, path: Path, request: dict[str, Any]) -> dict[str, Any]:
    full = {
        **request,
        "model": str(path.absolute()),
        "folder": str(Path(file.folder).absolute()) if file.path is not None else "",
        "memory_bytes": max(_MEMORY_BYTES, _MEMORY_FACTOR * file.data_bytes),
    }
    try:
        done = subprocess.run(
            [sys.executable, str(_WORKER)],
            input=json.dumps(full),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeRefusal(f"no answer within {_TIMEOUT_S} s") from error
    try:
        reply: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise RuntimeRefusal(f"its process ended with status {done.returncode} and no answer") from error
    if not reply["ok"]:
        raise RuntimeRefusal(_PREFIX.sub("", reply["cause"]))
    return reply
