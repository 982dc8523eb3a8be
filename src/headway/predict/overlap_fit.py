"""Fitting the trees that correct the fluid base. Needs LightGBM (`pip install "headway[train]"`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError
from headway.predict.overlap import HEADS
from headway.predict.trees import Trees, complete_trees

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TREES: Final = 30
LEAVES: Final = 12
DEPTH: Final = 4
RATE: Final = 0.1
FEWEST_IN_LEAF: Final = 15


def fit_trees(vectors: Floats, losses: Floats, weights: Floats, *, with_fluid: bool, seed: int) -> Trees:
    """Quantile trees of each of HEADS for pair vectors and their losses w.

    With `with_fluid` they give what is to be added to the fluid base, column 0 of the vectors; without it
    they give w itself, and are not shown that column.

    Raises HeadwayError without LightGBM.
    """
    try:
        import lightgbm
    except ImportError:
        raise HeadwayError(
            'fitting overlap predictors needs LightGBM; accepted: pip install "headway[train]"'
        ) from None
    rows = vectors.copy()
    target = losses - rows[:, 0] if with_fluid else losses
    if not with_fluid:
        rows[:, 0] = 0.0
    heads = []
    for quantile in HEADS:
        model = lightgbm.LGBMRegressor(
            objective="quantile",
            alpha=quantile,
            n_estimators=TREES,
            num_leaves=LEAVES,
            max_depth=DEPTH,
            learning_rate=RATE,
            min_child_samples=FEWEST_IN_LEAF,
            subsample=0.8,
            subsample_freq=1,
            colsample_bytree=0.7,
            random_state=seed,
            n_jobs=1,
            deterministic=True,
            verbose=-1,
        )
        model.fit(rows, target, sample_weight=weights)
        heads.append(model.booster_.dump_model()["tree_info"])
    return complete_trees(heads)
