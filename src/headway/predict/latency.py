"""Solo latency before any run: a roofline of the device times what it was seen to make of such operators.

A kernel takes `launch + max(flops / peak, bytes / bandwidth)` times a factor. The factor is learned from
measurements of synthetic networks on the device, for each class of operators apart, from sizes alone: a ridge
regression in logarithms with radial basis functions around sizes that were measured. Far from all of those
it falls back to the straight part, so that what was never seen is extrapolated along the roofline. That
efficiencies generalise better than times is from NeuSight (ASPLOS 2025).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.predict.features import DeviceLimits
from headway.predict.latency_features import LATENCY_FEATURES, node_table, roof_s

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.models.node_work import NodeWork

LATENCY_FORMAT: Final = 1
"""Version of the parameters' files; those of another one are refused."""

INTERVAL: Final = 0.9
"""Share of networks that were not learned from whose measured time lies in the interval."""

_LEAST_FACTOR: Final = -5.0
_MOST_FACTOR: Final = 7.0


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The factor of one class of operators: log(time / roofline), by standardised logarithms of sizes.

    `weights` has one number for the constant, one for each feature, and one for each centre; `operators` what
    single operators differ by.
    """

    mean: tuple[float, ...]
    spread: tuple[float, ...]
    centres: tuple[tuple[float, ...], ...]
    radius: float
    weights: tuple[float, ...]
    operators: Mapping[str, float]

    def log_factor(self, table: NDArray[np.float64], names: Sequence[str]) -> NDArray[np.float64]:
        """Logarithms of the factors of many kernels; `table` as `node_table` gives it, `names` operators."""
        import numpy as np

        inputs = basis(standardised(table, self.mean, self.spread), np.array(self.centres), self.radius)
        offsets = np.array([self.operators.get(name, 0.0) for name in names])
        bounded: NDArray[np.float64] = np.clip(
            inputs @ np.array(self.weights) + offsets, _LEAST_FACTOR, _MOST_FACTOR
        )
        return bounded


@dataclass(frozen=True, slots=True)
class WidthLatency:
    """What was learned with one number of threads.

    `flops_s`, `bandwidth_bytes_s` and `launch_s` are the roofline. A run takes `scale` times its kernels' sum
    plus `call_s` for each node and `begin_s` once. `low` and `high` are the interval's ends as factors of
    that. `samples` tells how many networks it was learned from; `classes` are by OperatorClass, with "" for
    all others.
    """

    threads: int
    flops_s: float
    bandwidth_bytes_s: float
    launch_s: float
    view_s: float
    scale: float
    call_s: float
    begin_s: float
    low: float
    high: float
    samples: int
    classes: Mapping[str, Efficiency]

    def kernel_s(self, works: Sequence[NodeWork]) -> NDArray[np.float64]:
        """Seconds of each node of one model; the model must be whole, since its weights count together."""
        import numpy as np

        seconds = np.full(len(works), self.view_s)
        table = node_table(works)
        by_class: dict[str, list[int]] = {}
        for index, work in enumerate(works):
            if not work.view:
                by_class.setdefault(work.kind.value if work.kind.value in self.classes else "", []).append(
                    index
                )
        roof = roof_s(works, self.flops_s, self.bandwidth_bytes_s, self.launch_s)
        for name, places in by_class.items():
            chosen = np.array(places)
            log_factor = self.classes[name].log_factor(table[chosen], [works[at].op for at in places])
            seconds[chosen] = roof[chosen] * np.exp(log_factor)
        return seconds


@dataclass(frozen=True, slots=True)
class Latency:
    """Predicted seconds, with an interval that holds the share INTERVAL of what is measured there."""

    mean_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """What one device makes of operators, for each number of threads that was measured.

    `machine` and `runtime` say where it holds; `cache_bytes` is that device's last cache.
    """

    machine: str
    runtime: str
    cache_bytes: float
    widths: Mapping[int, WidthLatency]
    features: tuple[str, ...] = field(default=LATENCY_FEATURES)

    def width(self, threads: int) -> WidthLatency:
        """What was learned with that many threads. Raises HeadwayError if that was not measured."""
        if threads not in self.widths:
            known = ", ".join(map(str, sorted(self.widths)))
            raise HeadwayError(
                f"{threads} threads: not calibrated; accepted: {known}, or `headway calibrate` with them"
            )
        return self.widths[threads]

    def limits(self, threads: int) -> DeviceLimits:
        """The device's limits, for features of blocks."""
        width = self.width(threads)
        return DeviceLimits(
            width.flops_s, width.bandwidth_bytes_s, threads, width.launch_s + width.call_s, self.cache_bytes
        )

    def node_s(self, works: Sequence[NodeWork], threads: int) -> tuple[float, ...]:
        """Seconds of each node of a whole model, calls included: what even blocks can be made of."""
        width = self.width(threads)
        return tuple(float(width.scale * seconds + width.call_s) for seconds in width.kernel_s(works))

    def blocks(
        self, works: Sequence[NodeWork], threads: int, positions: Sequence[int] = ()
    ) -> tuple[Latency, ...]:
        """Latency of each block of a model that is cut at these positions; of the whole if there are none.

        What it takes to begin counts to the first block. What boundaries cost is not in it.
        """
        width, node_s = self.width(threads), self.node_s(works, threads)
        bounds = [0, *positions, len(node_s)]
        means = [sum(node_s[first:end]) for first, end in pairwise(bounds)]
        means[0] += width.begin_s
        return tuple(Latency(mean_s, mean_s * width.low, mean_s * width.high) for mean_s in means)

    def to_json(self) -> str:
        """The parameters as JSON text with the format's version."""
        return json.dumps({"format": LATENCY_FORMAT, **_rounded(asdict(self))}, indent=None)

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> LatencyModel:
        """Read what `to_json` wrote.

        Raises HeadwayError, beginning with `where`, for text that is no such file, or of another version.
        """
        from pydantic import ValidationError

        try:
            data = json.loads(text)
        except ValueError as error:
            raise HeadwayError(
                f"{where}: not JSON ({error}); accepted: what `headway calibrate` writes"
            ) from None
        found = data.pop("format", None) if isinstance(data, dict) else None
        if found != LATENCY_FORMAT:
            raise HeadwayError(
                f"{where}: format {found!r}; accepted: {LATENCY_FORMAT}, of `headway calibrate`"
            )
        try:
            model: LatencyModel = _adapter().validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "file"
            raise HeadwayError(f"{where}: {place}: {first['msg']}") from None
        if model.features != LATENCY_FEATURES:
            raise HeadwayError(f"{where}: learned from other features; calibrate again")
        return model


def shipped_latency() -> LatencyModel:
    """What was learned on one x86-64 server processor, for devices that were not calibrated."""
    source = files("headway.predict") / "data" / "cpu.json"
    return LatencyModel.from_json(source.read_bytes(), "the latency parameters that are shipped")


def standardised(
    table: NDArray[np.float64], mean: Sequence[float], spread: Sequence[float]
) -> NDArray[np.float64]:
    """Features with mean 0 and spread 1 over what was learned from."""
    import numpy as np

    scaled: NDArray[np.float64] = (table - np.array(mean)) / np.array(spread)
    return scaled


def basis(inputs: NDArray[np.float64], centres: NDArray[np.float64], radius: float) -> NDArray[np.float64]:
    """What the regression is linear in: a constant, the features, and a bell around each centre."""
    import numpy as np

    columns = [np.ones((len(inputs), 1)), inputs]
    if len(centres):
        squares = ((inputs[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        columns.append(np.exp(-squares / (2.0 * radius**2)))
    return np.hstack(columns)


def _rounded(value: Any) -> Any:
    """Numbers to five digits: more is noise, and the file is read often."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(member) for member in value]
    return value


@lru_cache(maxsize=1)
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(LatencyModel)
