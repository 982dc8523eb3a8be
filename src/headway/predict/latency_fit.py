"""Learning a device's latency parameters from measured networks, with NumPy alone.

Ridge and radius of each class are chosen by leaving out networks, not kernels: kernels of one network are
alike. The interval comes from networks that were left out too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.network_sample import NetworkSample
from headway.predict.latency import INTERVAL, Efficiency, LatencyModel, WidthLatency, basis, standardised
from headway.predict.latency_features import node_table, roof_s

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.float64]

FEWEST_NETWORKS: Final = 20
_FEWEST_KERNELS: Final = 30
_FOLDS: Final = 5
_MOST_CENTRES: Final = 60
_RIDGES: Final = (0.3, 3.0, 30.0)
_RADII: Final = (2.0, 4.0)
_BEST_SHARE: Final = 98.0  # percentile of what kernels reach that counts as the device's limit
_LONG_S: Final = 50e-6  # kernels that are long enough to show that limit
_WHOLE_WEIGHT_S: Final = 50e-6  # shorter kernels count less: their times are read to the microsecond
_LEAST_WEIGHT: Final = 0.05
_OPERATOR_SHRINKAGE: Final = 10.0
_LEAST_S: Final = 0.5e-6
_REWEIGHTINGS: Final = 30
_SMALL_ERROR: Final = 0.02
_ROBUST_ROUNDS: Final = 4
_LARGE_ERROR: Final = 0.15
_USUAL: Final = (3.0, 4.0)  # ridge and radius for operators of classes that were hardly met
_SHORTEST_NETWORK_S: Final = 100e-6  # of those that the interval is taken from; blocks are no shorter


@dataclass(frozen=True, slots=True)
class _Kernels:
    """All kernels of all networks: features, operators, seconds, and the network of each."""

    table: Table
    kinds: Any  # of text
    names: Any  # of text
    seconds: Table
    roof: Table
    network: Table


def fit_latency(
    samples: Sequence[NetworkSample], machine: str, runtime: str, cache_bytes: float
) -> LatencyModel:
    """Learn from measured networks, for each number of threads among them.

    Raises:
        HeadwayError: fewer networks than FEWEST_NETWORKS with some number of threads.
    """
    widths: dict[int, WidthLatency] = {}
    for threads in sorted({sample.threads for sample in samples}):
        of_width = [sample for sample in samples if sample.threads == threads]
        if len(of_width) < FEWEST_NETWORKS:
            raise HeadwayError(
                f"{len(of_width)} networks measured with {threads} threads; "
                f"accepted: {FEWEST_NETWORKS} or more"
            )
        widths[threads] = _fit_width(of_width)
    return LatencyModel(machine, runtime, cache_bytes, widths)


def _fit_width(samples: Sequence[NetworkSample]) -> WidthLatency:
    import numpy as np

    launch_s, view_s = _launches(samples)
    flops_s, bandwidth_bytes_s = _limits(samples)
    scale, call_s, begin_s = _calls(samples)
    draft = WidthLatency(
        threads=samples[0].threads,
        flops_s=flops_s,
        bandwidth_bytes_s=bandwidth_bytes_s,
        launch_s=launch_s,
        view_s=view_s,
        scale=scale,
        call_s=call_s,
        begin_s=begin_s,
        low=1.0,
        high=1.0,
        samples=len(samples),
        classes={},
    )
    kernels = _kernels(samples, draft)
    chosen = {"": _USUAL}
    for kind in sorted(set(kernels.kinds.tolist())):
        members = kernels.kinds == kind
        if members.sum() >= _FEWEST_KERNELS:
            chosen[kind] = _choose(kernels, members)
    ratios = []
    for fold in range(_FOLDS):
        outside = kernels.network % _FOLDS != fold
        learned = _with_classes(draft, _classes(kernels, chosen, outside))
        for index, sample in enumerate(samples):
            if index % _FOLDS == fold and sample.total_s >= _SHORTEST_NETWORK_S:
                predicted_s = LatencyModel("", "", 1.0, {draft.threads: learned}).blocks(
                    sample.works, draft.threads
                )[0]
                ratios.append(sample.total_s / predicted_s.mean_s)
    tail = 50.0 * (1.0 - INTERVAL)
    low, middle, high = np.percentile(ratios, [tail, 50.0, 100.0 - tail]) if ratios else (0.5, 1.0, 2.0)
    everything = _classes(kernels, chosen, np.ones(len(kernels.seconds), dtype=bool))
    return _with_classes(draft, everything, float(middle), float(low / middle), float(high / middle))


def _with_classes(
    draft: WidthLatency,
    classes: dict[str, Efficiency],
    middle: float = 1.0,
    low: float = 1.0,
    high: float = 1.0,
) -> WidthLatency:
    return replace(
        draft,
        classes=classes,
        scale=draft.scale * middle,
        call_s=draft.call_s * middle,
        begin_s=draft.begin_s * middle,
        low=low,
        high=high,
    )


def _launches(samples: Sequence[NetworkSample]) -> tuple[float, float]:
    """What the shortest kernels take, and what a view takes."""
    import numpy as np

    kernels: list[float] = []
    views: list[float] = []
    for sample in samples:
        for work, seconds in zip(sample.works, sample.node_s, strict=True):
            (views if work.view else kernels).append(seconds)
    launch_s = float(np.percentile(kernels, 2.0))
    return max(_LEAST_S, launch_s), float(np.median(views)) if views else _LEAST_S


def _limits(samples: Sequence[NetworkSample]) -> tuple[float, float]:
    """The most operations and bytes a second that nearly no kernel exceeded."""
    import numpy as np

    long = [
        (work.flops / seconds, work.moved_bytes / seconds)
        for sample in samples
        for work, seconds in zip(sample.works, sample.node_s, strict=True)
        if seconds >= _LONG_S
    ]
    if not long:
        raise HeadwayError("no kernel took long enough to show what the device can do; measure more networks")
    flops_s, bandwidth = np.percentile(np.array(long), _BEST_SHARE, axis=0)
    return float(flops_s), float(bandwidth)


def _calls(samples: Sequence[NetworkSample]) -> tuple[float, float, float]:
    """How whole runs follow from their kernels: total = scale * sum + call * nodes + begin.

    Least absolute relative errors by reweighting, since runs that met other work are far too long; what would
    be negative is left out.
    """
    import numpy as np

    totals = np.array([sample.total_s for sample in samples])
    rows = np.array([(sum(sample.node_s), len(sample.works), 1.0) for sample in samples]) / totals[:, None]
    kept = [0, 1, 2]
    found = np.zeros(3)
    while kept:
        part, weights = rows[:, kept], np.ones(len(rows))
        for _ in range(_REWEIGHTINGS):
            root = np.sqrt(weights)
            solution = np.linalg.lstsq(part * root[:, None], root, rcond=None)[0]
            weights = 1.0 / np.maximum(np.abs(part @ solution - 1.0), _SMALL_ERROR)
        if (solution >= 0.0).all():
            found[kept] = solution
            break
        kept.remove(kept[int(np.argmin(solution * np.abs(part).mean(axis=0)))])
    scale, call_s, begin_s = found.tolist()
    return scale, call_s, begin_s


def _kernels(samples: Sequence[NetworkSample], draft: WidthLatency) -> _Kernels:
    import numpy as np

    tables, kinds, names, seconds, roofs, networks = [], [], [], [], [], []
    for index, sample in enumerate(samples):
        real = [at for at, work in enumerate(sample.works) if not work.view]
        tables.append(node_table(sample.works)[real])
        roofs.append(roof_s(sample.works, draft.flops_s, draft.bandwidth_bytes_s, draft.launch_s)[real])
        kinds += [sample.works[at].kind.value for at in real]
        names += [sample.works[at].op for at in real]
        seconds += [max(_LEAST_S, sample.node_s[at]) for at in real]
        networks += [index] * len(real)
    return _Kernels(
        np.vstack(tables),
        np.array(kinds),
        np.array(names),
        np.array(seconds),
        np.hstack(roofs),
        np.array(networks),
    )


def _choose(kernels: _Kernels, members: Any) -> tuple[float, float]:
    """Ridge and radius with the least error on networks that were left out."""
    import numpy as np

    best, chosen = np.inf, (_RIDGES[-1], _RADII[-1])
    for ridge, radius in product(_RIDGES, _RADII):
        error = 0.0
        for fold in range(_FOLDS):
            inside = members & (kernels.network % _FOLDS != fold)
            outside = members & (kernels.network % _FOLDS == fold)
            if inside.sum() < _FEWEST_KERNELS // 2 or not outside.any():
                continue
            learned = _learn(kernels, inside, ridge, radius)
            places = np.flatnonzero(outside)
            found = learned.log_factor(kernels.table[places], kernels.names[places].tolist())
            wanted = np.log(kernels.seconds[places] / kernels.roof[places])
            error += float((_weights(kernels.seconds[places]) * np.abs(found - wanted)).sum())
        if error < best:
            best, chosen = error, (ridge, radius)
    return chosen


def _classes(kernels: _Kernels, chosen: dict[str, tuple[float, float]], inside: Any) -> dict[str, Efficiency]:
    import numpy as np

    learned = {}
    for kind, (ridge, radius) in chosen.items():
        members = inside if kind == "" else inside & (kernels.kinds == kind)
        if np.count_nonzero(members) >= 2:
            learned[kind] = _learn(kernels, members, ridge, radius)
    return learned


def _learn(kernels: _Kernels, members: Any, ridge: float, radius: float) -> Efficiency:
    """Robust ridge regression of log(time / roofline); then what single operators differ by, shrunk."""
    import numpy as np

    places = np.flatnonzero(members)
    table = kernels.table[places]
    mean, spread = table.mean(axis=0), np.maximum(table.std(axis=0), 0.1)
    inputs = standardised(table, mean, spread)
    centres = inputs[_spread_out(inputs, _MOST_CENTRES)]
    columns = basis(inputs, centres, radius)
    wanted = np.log(kernels.seconds[places] / kernels.roof[places])
    weights = _weights(kernels.seconds[places])
    penalty = np.full(columns.shape[1], ridge)
    penalty[0] = 1e-6
    # Runs that met other work are far too long: errors count by their size, not by its square.
    robust = weights
    for _ in range(_ROBUST_ROUNDS):
        weighted = columns * robust[:, None]
        solution = np.linalg.solve(columns.T @ weighted + np.diag(penalty), weighted.T @ wanted)
        left = wanted - columns @ solution
        robust = weights * np.minimum(1.0, _LARGE_ERROR / np.maximum(np.abs(left), 1e-9))
    names, code = np.unique(kernels.names[places], return_inverse=True)
    sums = np.bincount(code, robust * left)
    counts = np.bincount(code, robust)
    offsets = dict(zip(names.tolist(), (sums / (counts + _OPERATOR_SHRINKAGE)).tolist(), strict=True))
    return Efficiency(
        tuple(mean.tolist()),
        tuple(spread.tolist()),
        tuple(tuple(row) for row in centres.tolist()),
        radius,
        tuple(solution.tolist()),
        offsets,
    )


def _weights(seconds: Table) -> Table:
    import numpy as np

    return np.clip(seconds / _WHOLE_WEIGHT_S, _LEAST_WEIGHT, 1.0)


def _spread_out(inputs: Table, count: int) -> list[int]:
    """Places of rows far from each other: each next one is the farthest from all before it."""
    import numpy as np

    chosen = [0]
    distance = ((inputs - inputs[0]) ** 2).sum(axis=1)
    while len(chosen) < min(count, len(inputs)):
        farthest = int(np.argmax(distance))
        if distance[farthest] <= 0.0:
            break
        chosen.append(farthest)
        distance = np.minimum(distance, ((inputs - inputs[farthest]) ** 2).sum(axis=1))
    return chosen
