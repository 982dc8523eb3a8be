"""Latencies of kernels on a GPU, measured or not, with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headway.predict.gpu.devices import GpuDevice, known_devices
from headway.predict.gpu.features import Floats, KernelClass, features_of
from headway.predict.gpu.forest import Forest
from headway.predict.gpu.kernels import Kernel

SEEN_GPU: Final = "gpu"  # the feature that says which measured GPU it is
_SMALLEST: Final = {  # shapes so small that their latency is that of the launch
    KernelClass.BMM: (1, 8, 8, 8),
    KernelClass.LINEAR: (1, 8, 64, 64),
    KernelClass.CONV: (1, 3, 3, 5, 5, 3),
    KernelClass.ELEMENTWISE: (1, 64, 2),
    KernelClass.SOFTMAX: (1, 64, 2),
    KernelClass.LAYER_NORM: (1, 64, 2),
}
_EXTRAPOLATED: Final = 2.0  # how much wider the interval of a kernel is that no measured row is like


@dataclass(frozen=True, slots=True)
class KernelEstimates:
    """Seconds for each kernel, all its launches together: a middle value and the bounds of the interval."""

    middle_s: Floats
    low_s: Floats
    high_s: Floats
    extrapolated: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GpuPredictor:
    """Trees for each class: for GPUs that were measured, and for any other.

    `unseen` trees know a device by ratios alone. `seen` trees know besides which of the measured GPUs it is;
    a class may lack them. `margins` are the lower and upper quantiles of log(measured / predicted) of each
    class on rows that no tree saw, under "seen" and "unseen"; `level` is the share of rows between them.
    `measured` gives the index of a device that was measured, by name.
    """

    unseen: Mapping[KernelClass, Forest]
    seen: Mapping[KernelClass, Forest]
    margins: Mapping[str, Mapping[str, tuple[float, float]]]
    measured: Mapping[str, int]
    level: float

    def index_of(self, device: GpuDevice) -> int | None:
        """Which measured GPU a device is; None for one that was not measured, or is described otherwise."""
        if known_devices().get(device.name) != device:
            return None
        return self.measured.get(device.name)

    def kernels_s(self, kernels: Sequence[Kernel], device: GpuDevice) -> KernelEstimates:
        """Latencies of kernels, each run alone in float32 on an idle device, its launch included.

        The interval of one kernel holds `level` of such kernels on average over GPUs; kernels that no
        measured row is like get twice the margins in log latency.
        """
        middle, low, high = (np.zeros(len(kernels)) for _ in range(3))
        extrapolated = np.array([bool(kernel.extrapolated) for kernel in kernels], dtype=bool)
        index = self.index_of(device)
        for kernel_class in KernelClass:
            places = [at for at, kernel in enumerate(kernels) if kernel.kernel_class is kernel_class]
            if not places:
                continue
            dims = np.array([kernels[at].dims for at in places], dtype=float)
            known = index is not None and kernel_class in self.seen
            forest = self.seen[kernel_class] if known else self.unseen[kernel_class]
            launches = np.array([kernels[at].count for at in places])
            seconds = self._seconds(forest, kernel_class, dims, device, index) * launches
            below, above = self.margins[kernel_class.value]["seen" if known else "unseen"]
            wider = np.where(extrapolated[places], _EXTRAPOLATED, 1.0)
            middle[places] = seconds
            low[places] = seconds * np.exp(np.minimum(below, 0.0) * wider)
            high[places] = seconds * np.exp(np.maximum(above, 0.0) * wider)
        return KernelEstimates(middle, low, high, extrapolated)

    def stream_s(self, kernels: Sequence[Kernel], device: GpuDevice) -> KernelEstimates:
        """What kernels take that are launched one after the other without waiting for each other.

        Measured latencies of single kernels hold the launch, since the device was idle before it. In a stream
        the launch of a kernel hides behind the kernel before, but the host launches no faster than that: a
        kernel adds its latency less the launch, and at least the launch. Intervals as for `kernels_s`.
        """
        alone = self.kernels_s(kernels, device)
        launch = {
            kernel_class: float(
                self.kernels_s([Kernel(kernel_class, _SMALLEST[kernel_class])], device).middle_s[0]
            )
            for kernel_class in {kernel.kernel_class for kernel in kernels}
        }
        launches = np.array([launch[kernel.kernel_class] * kernel.count for kernel in kernels])
        added = np.maximum(alone.middle_s - launches, launches)
        share = added / alone.middle_s
        return KernelEstimates(added, alone.low_s * share, alone.high_s * share, alone.extrapolated)

    @staticmethod
    def _seconds(
        forest: Forest, kernel_class: KernelClass, dims: Floats, device: GpuDevice, index: int | None
    ) -> Floats:
        unique, back = np.unique(dims, axis=0, return_inverse=True)
        features = features_of(kernel_class, device, unique)
        columns = [
            np.full(len(unique), float(index or 0))
            if name == SEEN_GPU
            else features.columns[:, features.names.index(name)]
            for name in forest.names
        ]
        seconds: Floats = features.bound_s * np.exp(forest.sums(np.column_stack(columns)))
        return seconds[back.reshape(-1)]


@cache
def shipped_predictor() -> GpuPredictor:
    """The predictor with the parameters that are shipped; bench/gpu_train.py made them."""
    folder = files("headway.predict.gpu") / "data"
    said: dict[str, Any] = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    with (folder / "trees.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    unseen, seen = (
        {
            kernel_class: Forest.from_arrays(arrays, f"{kind}.{kernel_class.value}")
            for kernel_class in KernelClass
            if f"{kind}.{kernel_class.value}.depth" in arrays
        }
        for kind in ("unseen", "seen")
    )
    margins = {
        name: {kind: (float(pair[0]), float(pair[1])) for kind, pair in kinds.items()}
        for name, kinds in said["margins"].items()
    }
    return GpuPredictor(unseen, seen, margins, dict(said["measured"]), float(said["level"]))
