"""Predictors of the time that two segments take together, taught some pairs and asked about others.

Beside those that Headway uses there are trivial ones, a linear model and a random forest over the same
vectors, and the inputs of SKADI and Abacus into their network (see `headway.predict.group`). All but those
two give the loss w, from which the time follows with the times alone; those two give the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.cost.contention import MOST_LOSS
from headway.predict.conformal import Bound, bound_factor
from headway.predict.mlp import fit_perceptron
from headway.predict.overlap_fit import fit_trees
from headway.predict.pairs import Member, Pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOREST_TREES: Final = 100
FOREST_LEAF: Final = 5
RIDGE: Final = 0.1
EPOCHS: Final = 270  # as in SKADI's public code, but at least so many steps of 128 pairs:
LEAST_STEPS: Final = 4_000


@dataclass(frozen=True)
class Guess:
    """Seconds together of each pair, and the bound that 99 % should stay below, where there is one."""

    seconds: Floats
    upper: Floats | None = None


Predictor = Callable[[Pairs], Guess]
"""Asked about pairs."""

Teaching = Callable[[Pairs, int], Predictor]
"""Taught pairs, with a seed."""


def _serial(taught: Pairs, seed: int) -> Predictor:
    return lambda asked: Guess(asked.alone.sum(axis=1))


def _longest(taught: Pairs, seed: int) -> Predictor:
    return lambda asked: Guess(asked.longer)


def _constant(taught: Pairs, seed: int) -> Predictor:
    import numpy as np

    order = np.argsort(taught.losses)
    passed = np.cumsum(taught.weights[order])
    w = float(taught.losses[order][np.searchsorted(passed, passed[-1] / 2)])
    return lambda asked: Guess(asked.seconds(np.full(len(asked), w)))


def _fluid(taught: Pairs, seed: int) -> Predictor:
    return lambda asked: Guess(asked.seconds(asked.fluid))


def _linear(taught: Pairs, seed: int) -> Predictor:
    """Least squares with a small ridge over the pair vector."""
    import numpy as np

    known = taught.vectors
    middle, scale = known.mean(axis=0), known.std(axis=0)
    scale[scale < 1e-9] = 1.0

    def inputs(vectors: Floats) -> Floats:
        return np.column_stack([(vectors - middle) / scale, np.ones(len(vectors))])

    root = np.sqrt(taught.weights)
    rows = inputs(known)
    ridge = RIDGE * np.eye(rows.shape[1])
    plane, *_ = np.linalg.lstsq(
        np.vstack([rows * root[:, None], ridge]),
        np.concatenate([taught.losses * root, np.zeros(len(ridge))]),
        rcond=None,
    )
    return lambda asked: Guess(asked.seconds(np.clip(inputs(asked.vectors) @ plane, 0.0, MOST_LOSS)))


def _forest(taught: Pairs, seed: int) -> Predictor:
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise HeadwayError(
            'a random forest needs scikit-learn; accepted: pip install "headway[train]"'
        ) from None
    model = RandomForestRegressor(FOREST_TREES, min_samples_leaf=FOREST_LEAF, n_jobs=1, random_state=seed)
    model.fit(taught.vectors, taught.losses, sample_weight=taught.weights)
    return lambda asked: Guess(asked.seconds(model.predict(asked.vectors)))


def _skadi(taught: Pairs, seed: int) -> Predictor:
    def rows(pairs: Pairs) -> list[list[float]]:
        return [_skadi_row(pair) for pair in pairs.members]

    return _network(taught, rows, seed)


def _skadi_row(pair: tuple[Member, Member]) -> list[float]:
    """Seven counts of operators and the batch of each, the larger model first."""
    ordered = sorted(pair, key=lambda each: (-each.size_s, each.model, each.first, each.end))
    return [value for each in ordered for value in (*each.counts, float(each.batch))]


def _abacus(taught: Pairs, seed: int) -> Predictor:
    """Which models, first and last block and batch of each. One that was not taught counts as the one that
    takes the most similar time."""
    sizes: dict[str, float] = {}
    for pair in taught.members:
        for member in pair:
            sizes.setdefault(member.model, member.size_s)
    numbers = {model: at for at, model in enumerate(sorted(sizes))}

    def number(member: Member) -> int:
        if member.model in numbers:
            return numbers[member.model]
        nearest = min(sizes, key=lambda model: (abs(sizes[model] - member.size_s), model))
        return numbers[nearest]

    def rows(pairs: Pairs) -> list[list[float]]:
        found = []
        for pair in pairs.members:
            present, values = [0.0] * len(numbers), []
            for at, member in sorted((number(member), member) for member in pair):
                present[at] += 1.0
                values += [float(member.first), float(member.end), float(member.batch)]
            found.append([*present, *values])
        return found

    return _network(taught, rows, seed)


def _network(taught: Pairs, rows: Callable[[Pairs], list[list[float]]], seed: int) -> Predictor:
    import numpy as np

    rng = np.random.default_rng([seed, 0xAB])
    epochs = max(EPOCHS, -(-LEAST_STEPS * 128 // len(taught)))
    network = fit_perceptron(np.array(rows(taught)), taught.together, epochs=epochs, rng=rng)
    return lambda asked: Guess(np.maximum(network.predict(np.array(rows(asked))), 1e-9))


def _trees(with_fluid: bool) -> Teaching:
    """Losses at 0.5 and 0.99; the bound is the time at the latter, stretched by what pairs left out show."""

    def teach(taught: Pairs, seed: int) -> Predictor:
        losses = _heads(taught, with_fluid, seed)
        factor = bound_factor(taught, lambda part: _bound(_heads(part, with_fluid, seed)), seed)

        def predict(asked: Pairs) -> Guess:
            heads = losses(asked)
            return Guess(asked.seconds(heads[0]), factor * asked.seconds(heads[2]))

        return predict

    return teach


def _heads(taught: Pairs, with_fluid: bool, seed: int) -> Callable[[Pairs], Floats]:
    """Losses at each quantile, [head, pair]."""
    import numpy as np

    trees = fit_trees(taught.vectors, taught.losses, taught.weights, with_fluid=with_fluid, seed=seed)

    def losses(asked: Pairs) -> Floats:
        vectors = asked.vectors
        base = vectors[:, 0].copy() if with_fluid else np.zeros(len(vectors))
        if not with_fluid:
            vectors[:, 0] = 0.0
        found: Floats = np.clip(np.sort(trees.predict(vectors) + base, axis=0), 0.0, MOST_LOSS)
        return found

    return losses


def _bound(losses: Callable[[Pairs], Floats]) -> Bound:
    return lambda asked: asked.seconds(losses(asked)[2])


OURS: Final = "trees over the fluid base"

RIVALS: Final[Mapping[str, Teaching]] = {
    "serial sum": _serial,
    "longest alone": _longest,
    "constant w": _constant,
    "fluid base": _fluid,
    "linear": _linear,
    "random forest": _forest,
    "SKADI's operator counts": _skadi,
    "Abacus's one-hot": _abacus,
    "trees without the fluid base": _trees(False),
    OURS: _trees(True),
}
"""By name, in the order in which they are shown."""
