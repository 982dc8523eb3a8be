"""Measured GPU kernel latencies as arrays, and boosted trees fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow.parquet as parquet

from headway.predict.gpu.devices import GpuDevice, known_device
from headway.predict.gpu.features import KernelClass, features_of
from headway.predict.gpu.forest import Forest

GPUS = ("a100", "p100", "p4", "t4", "v100")  # both A100 cards count as one
_FILES = {KernelClass.BMM: "bmm", KernelClass.LINEAR: "linear", KernelClass.CONV: "conv"}
_THREE_TENSORS = ("add", "mul", "div", "pow")  # two read, one written
SEEN_GPU = "gpu"  # the feature of the trees for GPUs that were measured: which one


@dataclass(frozen=True)
class Rows:
    """Measured kernels of one class: `fold` is 0 to 99, drawn from the shape alone; `gpu` indexes GPUS."""

    kernel_class: KernelClass
    gpu: np.ndarray
    fold: np.ndarray
    latency_s: np.ndarray
    columns: np.ndarray
    bound_s: np.ndarray
    names: tuple[str, ...]
    op: np.ndarray
    dims: np.ndarray

    @property
    def target(self) -> np.ndarray:
        """What the trees learn: the logarithm of latency over the bound."""
        return np.log(self.latency_s / self.bound_s)

    @property
    def floor_s(self) -> np.ndarray:
        """The launch floor of each row's operator on its GPU, the first percentile of the latencies."""
        floors = np.zeros(len(self.gpu))
        for gpu in range(len(GPUS)):
            for op in np.unique(self.op):
                these = (self.gpu == gpu) & (self.op == op)
                if these.any():
                    floors[these] = np.percentile(self.latency_s[these], 1)
        return floors


def device_of(name: str) -> GpuDevice:
    """The device of a name in the data."""
    return known_device(name)


def load(folder: Path, kernel_class: KernelClass) -> Rows:
    """All rows of one class."""
    table = parquet.read_table(folder / f"{_FILES.get(kernel_class, 'vector')}.parquet")
    column = {name: table[name].to_numpy() for name in table.column_names}
    op, device = column["op"].astype(str), column["device"].astype(str)
    if kernel_class is KernelClass.ELEMENTWISE:
        wanted = ~np.isin(op, ("softmax", "ln"))
    elif kernel_class is KernelClass.SOFTMAX:
        wanted = op == "softmax"
    elif kernel_class is KernelClass.LAYER_NORM:
        wanted = op == "ln"
    else:
        wanted = np.ones(len(op), bool)
    if kernel_class in (KernelClass.BMM, KernelClass.LINEAR):
        dims = [column[name] for name in ("b", "m", "n", "k")]
    elif kernel_class is KernelClass.CONV:
        dims = [column[name] for name in ("b", "c_in", "c_out", "size_in", "size_in", "kernel")]
    else:
        dims = [column["b"], column["h"], np.where(np.isin(op, _THREE_TENSORS), 3, 2)]
    shape = np.column_stack(dims).astype(np.int64)[wanted]
    op, device, latency_s = op[wanted], device[wanted], column["latency_ms"][wanted] / 1e3
    gpu = np.array([GPUS.index(name.split("-")[0]) for name in device])
    columns, bound_s, names = np.zeros((0, 0)), np.zeros(len(gpu)), ()
    for name in np.unique(device):
        these = device == name
        features = features_of(kernel_class, device_of(str(name)), shape[these].astype(float))
        if not len(columns):
            columns, names = np.zeros((len(gpu), len(features.names))), features.names
        columns[these], bound_s[these] = features.columns, features.bound_s
    # The number of tensors is no part of the shape: add and relu over one shape lie in one fold.
    drawn = shape[:, :2] if kernel_class.value in ("elementwise", "softmax", "layer_norm") else shape
    return Rows(kernel_class, gpu, _fold(drawn), latency_s, columns, bound_s, names, op, shape)


def _fold(shape: np.ndarray) -> np.ndarray:
    mixed = np.zeros(len(shape), np.uint64)
    with np.errstate(over="ignore"):
        for column in shape.T:
            mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    return ((mixed >> np.uint64(7)) % np.uint64(100)).astype(int)


@dataclass(frozen=True)
class Setting:
    """Hyper-parameters of one fit: which features, how many trees of how many leaves."""

    left_out: tuple[str, ...]
    leaves: int
    trees: int
    rows_per_leaf: int = 60


def fit(rows: Rows, chosen: np.ndarray, setting: Setting, *, with_gpu: bool = False) -> Forest:
    """Trees for the rows that `chosen` marks; `with_gpu` adds which GPU it was as a feature."""
    names = [name for name in rows.names if name not in setting.left_out]
    columns = rows.columns[:, [rows.names.index(name) for name in names]]
    if with_gpu:
        names.append(SEEN_GPU)
        columns = np.column_stack([columns, rows.gpu])
    parameters = {
        "objective": "l1",
        "num_leaves": setting.leaves,
        "learning_rate": 0.1,
        "min_data_in_leaf": setting.rows_per_leaf,
        "feature_fraction": 0.7,
        "seed": 1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbose": -1,
    }
    data = lightgbm.Dataset(columns[chosen], rows.target[chosen])
    return exported(lightgbm.train(parameters, data, setting.trees), tuple(names))


def exported(booster: lightgbm.Booster, names: tuple[str, ...]) -> Forest:
    """A booster's trees as flat arrays."""
    nodes: list[tuple[int, float, int, int, float]] = []
    roots: list[int] = []
    deepest = 0

    def place(tree: dict, depth: int) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        at = len(nodes)
        if "leaf_value" in tree:
            nodes.append((0, 0.0, at, at, tree["leaf_value"]))
            return at
        nodes.append((0, 0.0, 0, 0, 0.0))
        left = place(tree["left_child"], depth + 1)
        right = place(tree["right_child"], depth + 1)
        nodes[at] = (tree["split_feature"], tree["threshold"], left, right, 0.0)
        return at

    for tree in booster.dump_model()["tree_info"]:
        roots.append(place(tree["tree_structure"], 0))
    feature, threshold, left, right, value = zip(*nodes, strict=True)
    return Forest(
        np.array(feature, np.int16),
        np.array(threshold, np.float32),
        np.array(left, np.int32),
        np.array(right, np.int32),
        np.array(value, np.float32),
        np.array(roots, np.int32),
        deepest,
        names,
    )


def predicted_s(rows: Rows, chosen: np.ndarray, forest: Forest) -> np.ndarray:
    """Latencies that a forest predicts for rows, in seconds."""
    columns = [
        rows.gpu[chosen] if name == SEEN_GPU else rows.columns[chosen][:, rows.names.index(name)]
        for name in forest.names
    ]
    return rows.bound_s[chosen] * np.exp(forest.sums(np.column_stack(columns).astype(float)))
