"""How well overlap predictors do on pairs that they were not taught: errors, bounds, learning, cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import TYPE_CHECKING, Final

from headway.cost.contention import MOST_LOSS
from headway.predict.calibration import Calibration
from headway.predict.classes import block_classes
from headway.predict.pairs import Pairs
from headway.predict.rivals import OURS, RIVALS, Guess, Predictor, Teaching
from headway.predict.splits import SPLITS, Fold, Splits, folds
from headway.predict.tiers import Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

UNDER: Final = 0.05
"""A prediction is too low if the time is above it by more than this share of the time."""

OVERLAPS: Final = (0, 1, 5, 20, 100)
"""Of its own that a new model has had, in the learning curve."""

ASKED_SHARE: Final = 0.4
"""Of a model's pairs that the learning curve asks about; it learns from the others."""

CALIBRATED: Final = "the same, calibrated online"
CANDIDATES: Final = 8
_TIMED: Final = 100
_NOISE: Final = "noise floor"


@dataclass(frozen=True, slots=True)
class Score:
    """Errors in the time together, relative to it. `under` is the share of pairs that took longer than
    predicted by more than 5 %, `covered` the share within the 99 % bound, None without a bound."""

    split: str
    predictor: str
    pairs: int
    mape: float
    p95: float
    under: float
    covered: float | None


@dataclass(frozen=True, slots=True)
class Learnt:
    """The error after a number of overlaps of a model whose family was left out."""

    overlaps: int
    models: int
    pairs: int
    mape: float
    covered: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of processor time of one prediction for eight candidates, vectors included: the median."""

    predictor: str
    eight_us: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """All of it, for one sample of pairs. Everything but `costs` follows from the sample and the seed."""

    sample: str
    pairs: int
    median_loss: float
    scores: tuple[Score, ...]
    by_fold: tuple[Score, ...]
    curve: tuple[Learnt, ...]
    costs: tuple[Cost, ...]


def assess(
    sample: str,
    pairs: Pairs,
    splits: Splits,
    seed: int,
    on_fold: Callable[[str], None] = lambda words: None,
    rivals: Mapping[str, Teaching] = RIVALS,
) -> Assessment:
    """Teach and ask every predictor on every split.

    Args:
        sample: what the pairs are called.
        pairs: measured or simulated.
        splits: what is left out.
        seed: of whatever draws.
        on_fold: told of each fold before it is taught.
        rivals: the predictors, Headway's own among them.

    Raises:
        HeadwayError: without what training needs.
    """
    import numpy as np

    scores: list[Score] = []
    by_fold: list[Score] = []
    noise = pairs.noise()
    for split in SPLITS:
        found: dict[str, list[tuple[Floats, NDArray[np.bool_] | None]]] = {}
        for fold in _folds(split, pairs, splits):
            on_fold(f"{sample}, {split}: {fold.left_out}")
            asked = pairs.at(fold.asked)
            for name, guess in _guesses(rivals, pairs.at(fold.taught), asked, seed):
                wrong = _errors(asked, guess)
                covered = None if guess.upper is None else asked.together <= guess.upper
                found.setdefault(name, []).append((wrong, covered))
                if name in (OURS, CALIBRATED):
                    by_fold.append(_score(f"{split}: {fold.left_out}", name, [(wrong, covered)]))
        if found:
            scores.append(_score(split, _NOISE, [(noise, None)]))
            scores += [_score(split, name, parts) for name, parts in found.items()]
    return Assessment(
        sample,
        len(pairs),
        float(np.median(pairs.losses)),
        tuple(scores),
        tuple(by_fold),
        tuple(_curve(pairs, splits, seed)),
        tuple(_costs(rivals, pairs, seed)),
    )


def _folds(split: str, pairs: Pairs, splits: Splits) -> Iterator[Fold]:
    models, families, batches = (
        [(getattr(one, name), getattr(other, name)) for one, other in pairs.members]
        for name in ("model", "family", "batch")
    )
    return folds(split, models, families, batches, splits)


def _guesses(
    rivals: Mapping[str, Teaching], taught: Pairs, asked: Pairs, seed: int
) -> Iterator[tuple[str, Guess]]:
    for name, teach in rivals.items():
        predict = teach(taught, seed)
        yield name, predict(asked)
        if name == OURS:
            yield CALIBRATED, _online(predict, asked, seed)


def _errors(asked: Pairs, guess: Guess) -> Floats:
    """Relative errors, above 0 where too little was predicted."""
    found: Floats = (asked.together - guess.seconds) / asked.together
    return found


def _score(split: str, name: str, parts: Sequence[tuple[Floats, NDArray[np.bool_] | None]]) -> Score:
    import numpy as np

    wrong = np.concatenate([each for each, _ in parts])
    covered = [each for _, each in parts if each is not None]
    size = np.abs(wrong)
    return Score(
        split,
        name,
        len(wrong),
        float(size.mean()),
        float(np.percentile(size, 95)),
        float((wrong > UNDER).mean()),
        float(np.concatenate(covered).mean()) if covered else None,
    )


class _Online:
    """Predictions with what was learnt from the pairs so far, as the estimator on lanes makes them."""

    def __init__(self, pairs: Pairs, guess: Guess) -> None:
        assert guess.upper is not None
        first, second = pairs.blocks
        self._classes = list(zip(block_classes(first), block_classes(second), strict=True))
        by_model: dict[str, list[int]] = {}
        for pair, classes in zip(pairs.members, self._classes, strict=True):
            for member, each in zip(pair, classes, strict=True):
                by_model.setdefault(member.model, []).append(each)
        self._pairs, self._mean, self._upper = pairs, guess.seconds, guess.upper
        self._calibration = Calibration(lambda model: by_model[model], lambda model: 1)

    def predict(self, at: int) -> tuple[float, float]:
        """Seconds of a pair, and their bound."""
        longer, shorter = float(self._pairs.longer[at]), float(self._pairs.shorter[at])
        most = longer + MOST_LOSS * shorter
        one, other = self._pairs.members[at]
        tiers = self._calibration.tiers
        tier = min(tiers.of(one.model), tiers.of(other.model))
        bias = self._calibration.bias(self._classes[at], (one.model, other.model))
        careful = float(self._upper[at] if tier <= Tier.C1 else self._mean[at])
        mean = min(max(bias * float(self._mean[at]), longer), most)
        # What is alone strays too, so that a pair can take more than the most that its loss allows.
        solo = max(self._calibration.solo(member.model).upper for member in (one, other))
        return mean, min(max(self._calibration.margin(tier) * bias * careful, mean), most * solo)

    def learn(self, at: int) -> None:
        """What a pair took. Both of its runs tell of it, as both ends do in a log."""
        one, other = self._pairs.members[at]
        ratio = float(self._pairs.together[at] / self._mean[at])
        for names, classes in (
            ((one.model, other.model), self._classes[at]),
            ((other.model, one.model), self._classes[at][::-1]),
        ):
            self._calibration.overlapped(names, classes, ratio)


def _online(predict: Predictor, asked: Pairs, seed: int) -> Guess:
    """Every pair in a drawn order, learnt from once it was asked about."""
    import numpy as np

    online = _Online(asked, predict(asked))
    means, uppers = np.empty(len(asked)), np.empty(len(asked))
    for at in np.random.default_rng([seed, 0x0B]).permutation(len(asked)).tolist():
        means[at], uppers[at] = online.predict(at)
        online.learn(at)
    return Guess(means, uppers)


def _curve(pairs: Pairs, splits: Splits, seed: int) -> Iterator[Learnt]:
    """Each model of each family left out starts anew: it learns from a number of its own pairs, and is asked
    about the same others, whatever that number. Models with fewer pairs are not there at larger numbers."""
    import numpy as np

    found: dict[int, list[tuple[Floats, NDArray[np.bool_]]]] = {number: [] for number in OVERLAPS}
    rng = np.random.default_rng([seed, 0xC0])
    for fold in _folds("family", pairs, splits):
        predict = RIVALS[OURS](pairs.at(fold.taught), seed)
        new = pairs.at(fold.asked)
        guess = predict(new)
        models = {m.model for pair in new.members for m in pair if m.family == fold.left_out}
        for model in sorted(models):
            own = [at for at, pair in enumerate(new.members) if model in (pair[0].model, pair[1].model)]
            order = rng.permutation(own).tolist()
            kept = max(1, round(ASKED_SHARE * len(order)))
            asked, taught = np.array(order[:kept]), order[kept:]
            online, learnt = _Online(new, guess), 0
            for number in OVERLAPS:
                if number > len(taught):
                    break
                for at in taught[learnt:number]:
                    online.learn(at)
                learnt = number
                told = np.array([online.predict(int(at)) for at in asked])
                actual = new.together[asked]
                found[number].append(((actual - told[:, 0]) / actual, actual <= told[:, 1]))
    for number, parts in found.items():
        if parts:
            wrong = np.abs(np.concatenate([each for each, _ in parts]))
            covered = np.concatenate([each for _, each in parts])
            yield Learnt(number, len(parts), len(wrong), float(wrong.mean()), float(covered.mean()))


def _costs(rivals: Mapping[str, Teaching], pairs: Pairs, seed: int) -> Iterator[Cost]:
    import numpy as np

    eight = pairs.at(np.arange(min(CANDIDATES, len(pairs))))
    for name, teach in rivals.items():
        predict = teach(pairs, seed)
        predict(eight)
        times = []
        for _ in range(_TIMED):
            began_s = thread_time()
            predict(eight)
            times.append(thread_time() - began_s)
        yield Cost(name, 1e6 * float(np.median(times)))


__all__ = ["CALIBRATED", "OVERLAPS", "Assessment", "Cost", "Learnt", "Score", "assess"]
