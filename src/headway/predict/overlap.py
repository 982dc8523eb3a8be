"""The overlap loss w of pairs of blocks: a constant, the fluid base, or that corrected by trained trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Protocol

from headway.core.block import Segment
from headway.core.errors import HeadwayError
from headway.cost.contention import MOST_LOSS, PairLoss
from headway.predict.fluid import Blocks, fluid_losses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.predict.trees import Trees

    Floats = NDArray[np.float64]

HEADS: Final = (0.5, 0.9, 0.99)
"""Quantiles of w, in the order in which they are given."""

PAIR_VERSION: Final = 1
"""Of the pair vector's meaning and order. Trees trained on another version are refused."""

PAIRED: Final = ("compute", "memory", "occupancy", "gap", "cache", "p_compute", "p_memory", "p_cache")
PAIR_NAMES: Final = (
    "w_fluid",
    *(f"{way}_{name}" for way in ("sum", "difference", "product") for name in PAIRED),
    "seconds_ratio",
    "log_shorter_seconds",
    "log_longer_seconds",
)
"""Of a pair's vector, in order."""

SPREAD: Final = 0.15
"""What the fluid base is believed to be wrong by, as a standard deviation of w, where nothing was trained."""

_SHORTEST_S: Final = 1e-9
_ABOVE: Final = (0.0, 1.2816, 2.3263)  # of the normal distribution at HEADS


class OverlapModel(Protocol):
    """Tells the overlap loss of every block of one model with every one of another. None is above `most`."""

    name: str
    most: float

    def losses(self, first: Sequence[Segment], second: Sequence[Segment]) -> Floats:
        """w at each of HEADS, [head, block of first, block of second]: from 0, heads in ascending order."""
        ...


class ConstantOverlap:
    """The same loss for all pairs. `spread` is its standard deviation over pairs."""

    def __init__(self, w: float, spread: float = SPREAD) -> None:
        self.name = f"constant {w:g}"
        self.most = max(MOST_LOSS, w)
        self._w = w
        self._spread = spread

    def losses(self, first: Sequence[Segment], second: Sequence[Segment]) -> Floats:
        """See `OverlapModel.losses`."""
        import numpy as np

        heads = [min(self._w + above * self._spread, self.most) for above in _ABOVE]
        table: Floats = np.broadcast_to(np.array(heads)[:, None, None], (3, len(first), len(second)))
        return table


class FluidOverlap:
    """The fluid base alone, with a fixed spread above it."""

    name = "fluid"
    most = MOST_LOSS

    def losses(self, first: Sequence[Segment], second: Sequence[Segment]) -> Floats:
        """See `OverlapModel.losses`."""
        import numpy as np

        one, other = _crossed(first, second)
        base = fluid_losses(one, other).reshape(len(first), len(second))
        return np.clip(base[None] + np.array(_ABOVE)[:, None, None] * SPREAD, 0.0, MOST_LOSS)


class TreeOverlap:
    """Quantile trees that correct the fluid base. `adds` says whether trees give w itself or w - w_fluid."""

    name = "trees"
    most = MOST_LOSS

    def __init__(self, trees: Trees, *, adds: bool) -> None:
        self._trees = trees
        self._adds = adds

    def of_pairs(self, first: Blocks, second: Blocks) -> Floats:
        """w at each of HEADS, [head, pair], of blocks that pair up row by row."""
        import numpy as np

        vectors = pair_vectors(first, second)
        heads = self._trees.predict(vectors)
        if self._adds:
            heads += vectors[:, 0]
        heads.sort(axis=0)
        bounded: Floats = np.minimum(np.maximum(heads, 0.0), MOST_LOSS)
        return bounded

    def losses(self, first: Sequence[Segment], second: Sequence[Segment]) -> Floats:
        """See `OverlapModel.losses`. Heads that cross are sorted (Chernozhukov et al., Econometrica 2010)."""
        one, other = _crossed(first, second)
        return self.of_pairs(one, other).reshape(3, len(first), len(second))


class KnownOverlap:
    """The loss that a rule gives, without any doubt: for ablations in the simulator, where it is known."""

    name = "oracle"

    def __init__(self, loss: PairLoss, most: float = MOST_LOSS) -> None:
        self._loss = loss
        self.most = most

    def losses(self, first: Sequence[Segment], second: Sequence[Segment]) -> Floats:
        """See `OverlapModel.losses`; all heads are the same."""
        import numpy as np

        table = np.array([[self._loss(one, other) for other in second] for one in first])
        return np.broadcast_to(table, (3, *table.shape))


def pair_vectors(first: Blocks, second: Blocks) -> Floats:
    """Vectors of pairs, one a row with columns as PAIR_NAMES: the same for (a, b) and (b, a)."""
    import numpy as np

    one, other = first.table, second.table
    wide = one.shape[1] - 1
    vectors = np.empty((len(one), len(PAIR_NAMES)))
    vectors[:, 0] = fluid_losses(first, second)
    vectors[:, 1 : 1 + wide] = (one + other)[:, 1:]
    vectors[:, 1 + wide : 1 + 2 * wide] = np.abs(one - other)[:, 1:]
    vectors[:, 1 + 2 * wide : 1 + 3 * wide] = (one * other)[:, 1:]
    shorter = np.maximum(np.minimum(one[:, 0], other[:, 0]), _SHORTEST_S)
    longer = np.maximum(np.maximum(one[:, 0], other[:, 0]), _SHORTEST_S)
    vectors[:, -3] = shorter / longer
    vectors[:, -2] = np.log(shorter)
    vectors[:, -1] = np.log(longer)
    return vectors


@lru_cache(maxsize=4)
def shipped(*, with_fluid: bool = True) -> TreeOverlap:
    """The trees that are shipped, trained on synthetic blocks on two lanes of a processor; without the fluid
    base for comparison.

    Raises HeadwayError if they belong to another version of the pair vector.
    """
    import numpy as np

    name = "overlap_trees.npz" if with_fluid else "overlap_trees_no_fluid.npz"
    with (resources.files("headway.predict") / "data" / name).open("rb") as file, np.load(file) as arrays:
        return overlap_from(arrays, name)


def overlap_from(arrays: Mapping[str, NDArray[Any]], where: str) -> TreeOverlap:
    """Trees as `bench/overlap_train.py` writes them. Raises HeadwayError, beginning with `where`, for trees
    of another version of the pair vector, or damaged ones."""
    from headway.predict.trees import Trees

    try:
        version = int(arrays["version"])
        if version != PAIR_VERSION:
            raise HeadwayError(f"{where}: pair vectors of version {version}; accepted: {PAIR_VERSION}")
        return TreeOverlap(Trees.from_arrays(arrays), adds=bool(arrays["adds"]))
    except (KeyError, ValueError) as error:
        raise HeadwayError(f"{where}: no trees of an overlap predictor ({error})") from None


def _crossed(first: Sequence[Segment], second: Sequence[Segment]) -> tuple[Blocks, Blocks]:
    """Every block of the one with every one of the other."""
    import numpy as np

    rows, columns = np.divmod(np.arange(len(first) * len(second)), len(second))
    return Blocks.of(first).at(rows), Blocks.of(second).at(columns)
