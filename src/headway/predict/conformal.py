"""By how much a taught bound on times must be stretched to hold as often as it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headway.predict.pairs import Pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVEL: Final = 0.99
"""Share of the times that bounds are meant for."""

FOLDS: Final = 4
_FEWEST: Final = 20  # pairs to teach or to ask in a fold, for it to tell anything

Bound = Callable[[Pairs], "Floats"]
"""Upper bounds in seconds of pairs."""


def bound_factor(taught: Pairs, teach: Callable[[Pairs], Bound], seed: int) -> float:
    """The factor, at least 1, by which bounds are to be multiplied so that LEVEL of new times are within.

    Trees meet a quantile of what they were taught, and fewer of what they were not; and a bound on the loss w
    says nothing of the chance in the times alone, by which a pair can take more than one after the other.
    So each of FOLDS groups of families is left out in turn, and the factor is the quantile of time over
    bound on pairs of those left out, with the correction for their number (split conformal prediction,
    Romano, Patterson and Candes, NeurIPS 2019, with groups left out as those that will be asked about are).
    Pairs of a single family are left out by lot.

    Args:
        taught: what may be looked at.
        teach: gives bounds, from pairs.
        seed: of the lots.
    """
    import numpy as np

    ratios = [
        asked.together / teach(rest)(asked)
        for rest, asked in _left_out(taught, seed)
        if min(len(rest), len(asked)) >= _FEWEST
    ]
    if not ratios:
        return 1.0
    every = np.sort(np.concatenate(ratios))
    place = min(len(every) - 1, int(np.ceil((len(every) + 1) * LEVEL)) - 1)
    return max(1.0, float(every[place]))


def _left_out(pairs: Pairs, seed: int) -> Iterator[tuple[Pairs, Pairs]]:
    """What is taught and what is asked about in each fold."""
    import numpy as np

    families = np.array([[member.family for member in pair] for pair in pairs.members]).reshape(-1, 2)
    names = np.unique(families)
    if len(names) < 2:
        lots = np.random.default_rng([seed, 0xCF]).permutation(len(pairs)) % FOLDS
        masks = [lots == fold for fold in range(FOLDS)]
    else:
        groups = [names[fold::FOLDS] for fold in range(min(FOLDS, len(names)))]
        masks = [np.isin(families, group).any(axis=1) for group in groups]
    for asked in masks:
        yield pairs.at(~asked), pairs.at(asked)
