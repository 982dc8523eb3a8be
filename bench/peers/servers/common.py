"""What all servers that Headway is compared with do the same way: sessions, and tensors from bytes."""

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime

FOLDER = Path(os.environ["BENCH_MODELS"])
PORT = int(os.environ["BENCH_PORT"])
MODELS = json.loads((FOLDER / "models.json").read_text())


def session(name, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(f"{FOLDER}/{name}.onnx", options, providers=["CPUExecutionProvider"])


def output_of(name):
    return MODELS[name]["output"]


def tensors(name, body, start=0):
    """A request's inputs as views of its body, in which one follows the other from `start`."""
    views = {}
    for key, dtype, shape in MODELS[name]["inputs"]:
        count = int(np.prod(shape))
        views[key] = np.frombuffer(body, dtype, count, start).reshape(shape)
        start += views[key].nbytes
    return views
