"""GPU kernels as the predictor knows them: a class, its dimensions, and what they ask of the device."""

from __future__ import annotations

from dataclasses import dataclass

from headway.predict.gpu.features import FLOAT_BYTES, KernelClass


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch, or `count` equal ones.

    `dims` are as `KernelClass` lists them. `extrapolated` says why no measured row is like it: empty where
    such rows were measured.
    """

    kernel_class: KernelClass
    dims: tuple[float, ...]
    name: str = ""
    count: int = 1
    extrapolated: str = ""

    @property
    def flops(self) -> float:
        """Floating-point operations of one launch, counted as for a direct convolution."""
        if self.kernel_class in (KernelClass.BMM, KernelClass.LINEAR):
            batch, m, n, k = self.dims
            return 2 * batch * m * n * k
        if self.kernel_class is KernelClass.CONV:
            batch, c_in, c_out, size_out, _, side = self.dims
            return 2 * batch * c_in * c_out * size_out**2 * side**2
        return self.dims[0] * self.dims[1]

    @property
    def moved_bytes(self) -> float:
        """Bytes of operands and result of one launch, each moved once."""
        if self.kernel_class in (KernelClass.BMM, KernelClass.LINEAR):
            batch, m, n, k = self.dims
            return FLOAT_BYTES * batch * (m * k + k * n + m * n)
        if self.kernel_class is KernelClass.CONV:
            batch, c_in, c_out, size_out, size_in, side = self.dims
            return FLOAT_BYTES * (batch * (c_in * size_in**2 + c_out * size_out**2) + c_in * c_out * side**2)
        rows, width, tensors = self.dims
        return FLOAT_BYTES * rows * width * tensors

    @property
    def out_elements(self) -> float:
        """Elements that one launch writes."""
        if self.kernel_class in (KernelClass.BMM, KernelClass.LINEAR):
            return self.dims[0] * self.dims[1] * self.dims[2]
        if self.kernel_class is KernelClass.CONV:
            return self.dims[0] * self.dims[2] * self.dims[3] ** 2
        return self.dims[0] * self.dims[1]


def bmm(batch: float, m: float, n: float, k: float, name: str = "", extrapolated: str = "") -> Kernel:
    """`batch` products (m x k) times (k x n)."""
    return Kernel(KernelClass.BMM, (batch, m, n, k), name, extrapolated=extrapolated)


def linear(m: float, n: float, k: float, name: str = "", extrapolated: str = "") -> Kernel:
    """A layer of `n` outputs from `k` inputs over `m` rows, its bias included."""
    return Kernel(KernelClass.LINEAR, (1, m, n, k), name, extrapolated=extrapolated)


def elementwise(
    rows: float, width: float, tensors: float = 2, name: str = "", extrapolated: str = ""
) -> Kernel:
    """One pass over (rows, width) that reads and writes `tensors` tensors of that size in all."""
    return Kernel(KernelClass.ELEMENTWISE, (rows, width, tensors), name, extrapolated=extrapolated)


def softmax(rows: float, width: float, name: str = "", extrapolated: str = "") -> Kernel:
    """A softmax over each of `rows` rows."""
    return Kernel(KernelClass.SOFTMAX, (rows, width, 2), name, extrapolated=extrapolated)


def layer_norm(rows: float, width: float, name: str = "", extrapolated: str = "") -> Kernel:
    """A layer normalisation of each of `rows` rows."""
    return Kernel(KernelClass.LAYER_NORM, (rows, width, 2), name, extrapolated=extrapolated)
