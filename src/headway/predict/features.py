"""What a predictor sees of blocks, of segments of several blocks, and of pairs of segments.

Nothing here names a model: a vector holds what a block computes and moves, how long it takes alone, and by
how much others slow it down, relative to what the device can do. The formulas stand in docs/features.md.
Shares of what a device has, `f`, `m` and `o`, are what earlier predictors of contention took from hardware
counters (Prophet, ASPLOS 2017); here they come from the graph and one time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.block_work import BlockWork
from headway.models.operator_class import OperatorClass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Vectors = NDArray[np.float64]

FEATURE_VERSION: Final = 1
"""Of the vectors' meaning and order. Parameters fitted to another version are refused."""

PROBES: Final = ("compute", "memory", "cache")
"""Fixed kernels that a block may have been run beside, by what they use up."""

NO_SLOWDOWN: Final = 1.0
"""Of a block that was not probed: as if the probe were not there."""

ELEMENTS_PER_PLACE: Final = 2048
"""Output elements that keep one lane, or one multiprocessor of a GPU, busy: 2048 is how many threads a
multiprocessor holds."""

OPERATOR_FEATURES: Final = tuple(f"share_{kind.value}" for kind in OperatorClass)
FEATURE_NAMES: Final = (
    "log_seconds",
    "f",
    "m",
    "log_intensity",
    *OPERATOR_FEATURES,
    "log_output_elements",
    "o",
    "g",
    "log_kernels",
    "log_footprint",
    "log_cut_bytes",
    *(f"p_{probe}" for probe in PROBES),
)
"""Of a block's vector, in order."""

EXTENSIVE: Final = ("log_seconds", "log_kernels", "log_footprint", "log_cut_bytes")
"""Those that grow with the block. The others stay what they are if equal blocks become one."""

SEGMENT_NAMES: Final = (
    "log_segment_seconds",
    *(f"mean_{name}" for name in FEATURE_NAMES),
    *(f"max_{name}" for name in FEATURE_NAMES),
)
"""Of a segment's vector, in order."""

PAIRED: Final = ("f", "m", "o", "g", *(f"p_{probe}" for probe in PROBES))
PAIR_NAMES: Final = (
    *(f"{way}_{name}" for way in ("sum", "difference", "product") for name in PAIRED),
    "seconds_ratio",
    "log_shorter_seconds",
    "log_longer_seconds",
)
"""Of a pair's vector, in order."""

_COLUMN: Final = {name: index for index, name in enumerate(FEATURE_NAMES)}
_SHORTEST_S: Final = 1e-9


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a device can do at most, for one lane (or all of a GPU): the roofline that work is compared with.

    `places` are lanes' threads, or multiprocessors. `launch_s` is what one kernel takes to begin, and
    `cache_bytes` the last cache that all share.
    """

    flops_s: float
    bandwidth_bytes_s: float
    places: int
    launch_s: float
    cache_bytes: float

    def __post_init__(self) -> None:
        for name in ("flops_s", "bandwidth_bytes_s", "places", "cache_bytes"):
            value = getattr(self, name)
            if not 0.0 < value < float("inf"):
                raise HeadwayError(f"device limits: {name} = {value!r}; accepted: a number above 0")
        if not 0.0 <= self.launch_s < float("inf"):
            raise HeadwayError(f"device limits: launch_s = {self.launch_s!r}; accepted: seconds from 0 on")


def check_version(found: object, where: str) -> None:
    """Raise HeadwayError if parameters were fitted to features of another version."""
    if found != FEATURE_VERSION:
        raise HeadwayError(
            f"{where}: features of version {found!r}; accepted: {FEATURE_VERSION}; fit the parameters again"
        )


def block_features(
    works: Sequence[BlockWork],
    seconds: ArrayLike,
    limits: DeviceLimits,
    cut_bytes: Sequence[int | None] | None = None,
    slowdowns: Sequence[Mapping[str, float]] | None = None,
) -> Vectors:
    """Vectors of many blocks at once, one a row, with columns as FEATURE_NAMES.

    Args:
        works: what each block computes and moves.
        seconds: what each takes alone, measured or predicted, above 0.
        limits: of the lane or device on which it takes that.
        cut_bytes: what crosses the cut at each block's end; none by default and where not known.
        slowdowns: time beside a probe over time alone, by the probe's name; 1 where not probed.

    Raises:
        HeadwayError: other numbers of seconds, cuts or slow-downs than blocks, or seconds not above 0.
    """
    import numpy as np

    count = len(works)
    alone_s = np.asarray(seconds, dtype=float)
    crossing = [0] * count if cut_bytes is None else [size or 0 for size in cut_bytes]
    beside = [{}] * count if slowdowns is None else slowdowns
    if alone_s.shape != (count,) or len(crossing) != count or len(beside) != count:
        raise HeadwayError(
            f"block features: {count} blocks with seconds of shape {alone_s.shape}, {len(crossing)} cuts and "
            f"{len(beside)} slow-downs; accepted: one of each for every block"
        )
    if not (np.isfinite(alone_s).all() and (alone_s > 0.0).all()):
        raise HeadwayError("block features: seconds that are 0, negative or no number; accepted: above 0")
    flops = np.array([work.flops for work in works], dtype=float)
    moved = np.array([work.moved_bytes for work in works], dtype=float)
    elements = np.array([work.output_elements for work in works], dtype=float)
    kernels = np.array([work.kernels for work in works], dtype=float)
    footprint = np.array([work.footprint_bytes for work in works], dtype=float)
    table = np.empty((count, len(FEATURE_NAMES)))
    columns: dict[str, Any] = {
        "log_seconds": np.log(np.maximum(alone_s, _SHORTEST_S)),
        "f": flops / (alone_s * limits.flops_s),
        "m": moved / (alone_s * limits.bandwidth_bytes_s),
        "log_intensity": np.log(np.maximum(flops, 1.0) / np.maximum(moved, 1.0)),
        "log_output_elements": np.log1p(elements),
        "o": np.minimum(1.0, elements / (limits.places * ELEMENTS_PER_PLACE)),
        "g": np.minimum(1.0, kernels * limits.launch_s / alone_s),
        "log_kernels": np.log1p(kernels),
        "log_footprint": np.log1p(footprint / limits.cache_bytes),
        "log_cut_bytes": np.log1p(np.array(crossing, dtype=float)),
    }
    for kind in OperatorClass:
        columns[f"share_{kind.value}"] = [work.operator_shares.get(kind.value, 0.0) for work in works]
    for probe in PROBES:
        columns[f"p_{probe}"] = [found.get(probe, NO_SLOWDOWN) for found in beside]
    for name, index in _COLUMN.items():
        table[:, index] = columns[name]
    return table


def segment_features(blocks: Vectors, first: int = 0, end: int | None = None) -> Vectors:
    """The vector of one segment, blocks `first` to before `end`: SEGMENT_NAMES.

    Means are weighted by the blocks' times; maxima are over blocks.

    Raises:
        HeadwayError: vectors of another length than FEATURE_NAMES, or no block.
    """
    end = len(blocks) if end is None else end
    vector: Vectors = segments_features(blocks, [(first, end)])[0]
    return vector


def segments_features(blocks: Vectors, ranges: Sequence[tuple[int, int]]) -> Vectors:
    """Vectors of many segments of one model, one a row; raises as `segment_features`."""
    import numpy as np

    if blocks.ndim != 2 or blocks.shape[1] != len(FEATURE_NAMES):
        raise HeadwayError(
            f"block vectors of shape {blocks.shape}; accepted: one of {len(FEATURE_NAMES)} features a row"
        )
    rows = []
    for first, end in ranges:
        if not 0 <= first < end <= len(blocks):
            raise HeadwayError(
                f"segment from block {first} to {end}; accepted: at least one of {len(blocks)} blocks"
            )
        part = blocks[first:end]
        seconds = np.exp(part[:, 0])
        total_s = seconds.sum()
        mean = (seconds[:, None] * part).sum(axis=0) / total_s
        rows.append(np.concatenate([[np.log(total_s)], mean, part.max(axis=0)]))
    return np.array(rows).reshape(len(rows), len(SEGMENT_NAMES))


def pair_features(one: Vectors, other: Vectors) -> Vectors:
    """Vectors of pairs of segments, one a row with columns as PAIR_NAMES: the same for (a, b) and (b, a).

    Args:
        one: a segment's vector, or a row for each pair.
        other: as `one`; a single segment is paired with all of `one`.

    Raises:
        HeadwayError: vectors of another length than SEGMENT_NAMES, or of numbers of rows that do not fit.
    """
    import numpy as np

    a, b = np.atleast_2d(one), np.atleast_2d(other)
    width = len(SEGMENT_NAMES)
    fit = len(a) == len(b) or 1 in (len(a), len(b))
    if a.shape[1] != width or b.shape[1] != width or not fit:
        raise HeadwayError(
            f"segment vectors of shapes {a.shape} and {b.shape}; accepted: {width} features a row, and as"
            " many rows of each, or one"
        )
    a, b = np.broadcast_arrays(a, b)
    means = [SEGMENT_NAMES.index(f"mean_{name}") for name in PAIRED]
    x, y = a[:, means], b[:, means]
    shorter, longer = np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 0], b[:, 0])
    return np.column_stack([x + y, np.abs(x - y), x * y, np.exp(shorter - longer), shorter, longer])


def column(name: str) -> int:
    """Place of a feature in a block's vector. Raises HeadwayError for a name that is none."""
    if name not in _COLUMN:
        raise HeadwayError(f"feature {name!r}; accepted: {', '.join(FEATURE_NAMES)}")
    return _COLUMN[name]
