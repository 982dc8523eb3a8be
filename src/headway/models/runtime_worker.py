"""A process of its own in which ONNX Runtime meets a model: it may crash or hang there without harm.

Reads one JSON object from standard input and writes one to standard output. Run by
`headway.models.runtime`, as a file, so that it imports nothing of Headway.

Request: task ("check" or "measure"), model (path), folder (of external data), memory_bytes; to measure also
outputs (names), inputs (name -> {shape, dtype, sequence}) and seed.
Reply: {"ok": true}, for "measure" with "shapes" (name -> list of shapes, several for a sequence), or
{"ok": false, "cause": text}.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _session(request: dict[str, Any], measuring: bool) -> Any:
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    if not measuring:
        return onnxruntime.InferenceSession(request["model"], options, providers=providers)
    with open(request["model"], "rb") as stream:
        model = onnx.ModelProto.FromString(stream.read())
    there = {value.name for value in model.graph.output}
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in request["outputs"] if name not in there
    )
    del model.graph.value_info[:]
    for node in model.graph.node:
        node.ClearField("name")
    if request["folder"]:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", request["folder"]
        )
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def _array(spec: dict[str, Any], rng: Any, integer: int) -> Any:
    import numpy as np

    shape, dtype = tuple(spec["shape"]), spec["dtype"]
    if dtype == "bool":
        return np.ones(shape, dtype=bool)
    if dtype == "string":
        return np.full(shape, "a", dtype=object)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        import ml_dtypes

        name = {"float8e4m3fn": "float8_e4m3fn", "float8e5m2": "float8_e5m2"}.get(dtype, dtype)
        kind = np.dtype(getattr(ml_dtypes, name))
    if "float" in dtype:
        return rng.standard_normal(shape).astype(kind)
    return np.full(shape, integer).astype(kind)


def _measure(request: dict[str, Any]) -> dict[str, list[list[int]]]:
    import numpy as np

    session = _session(request, measuring=True)
    names = [output.name for output in session.get_outputs()]
    failure: Exception | None = None
    # Lengths and counts usually have to be at least one; zeros are within the range of every table.
    for integer in (1, 0):
        rng = np.random.default_rng(request["seed"])
        feeds = {}
        for name, spec in request["inputs"].items():
            array = _array(spec, rng, integer)
            feeds[name] = [array] if spec["sequence"] else array
        try:
            results = session.run(names, feeds)
        except Exception as error:
            failure = error
            continue
        shapes: dict[str, list[list[int]]] = {}
        for name, result in zip(names, results, strict=True):
            members = result if isinstance(result, list) else [result]
            shapes[name] = [list(np.shape(member)) for member in members if member is not None]
        return shapes
    raise RuntimeError(failure)


def main() -> None:
    """Serve one request."""
    request = json.load(sys.stdin)
    try:
        import resource

        limit = request["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, ValueError, OSError):
        pass  # not every system has such limits; the time limit holds all the same
    try:
        if request["task"] == "check":
            _session(request, measuring=False)
            reply: dict[str, Any] = {"ok": True}
        else:
            reply = {"ok": True, "shapes": _measure(request)}
    except Exception as error:
        reply = {"ok": False, "cause": " ".join(str(error).split())}
    json.dump(reply, sys.stdout)


if __name__ == "__main__":
    main()
