"""Which pairs a predictor is taught and which it is asked about: fixed before anything is trained.

The file `data/splits.json` names the zoo's families, what is left out, the batches and the seeds. A split
gives folds; in each, some rows of measured or simulated pairs are taught and others asked about:

| split | asked about |
| --- | --- |
| random | rows drawn at random: models and often the same segments were taught, for comparison only |
| model | pairs in which one model takes part; that model was not taught |
| family | pairs in which one family takes part; nothing of it was taught |
| both | pairs of two members of families that were left out together |
| batch | pairs in which both have batches that were not taught |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.bool_]

SPLITS: Final = ("random", "model", "family", "both", "batch")

FEWEST_TAUGHT: Final = 30
FEWEST_ASKED: Final = 5
"""A fold with fewer rows is left out."""


@dataclass(frozen=True, slots=True)
class Splits:
    """What the file says."""

    seeds: tuple[int, ...]
    random_test_share: float
    families: Mapping[str, tuple[str, ...]]
    models_left_out: tuple[str, ...]
    families_left_out_together: tuple[tuple[str, ...], ...]
    batches: tuple[int, ...]
    batches_left_out: tuple[int, ...]

    def family_of(self, model: str) -> str:
        """The family of a model of the zoo. Raises HeadwayError for one that the file does not name."""
        for family, models in self.families.items():
            if model in models:
                return family
        raise HeadwayError(f"model {model!r}; accepted: those of data/splits.json")


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows that are taught and rows that are asked about; `left_out` says what the fold lacks."""

    left_out: str
    taught: Rows
    asked: Rows


@lru_cache(maxsize=1)
def shipped_splits() -> Splits:
    """The splits of this repository."""
    text = (resources.files("headway.predict") / "data" / "splits.json").read_text("utf-8")
    found = json.loads(text)
    return Splits(
        tuple(found["seeds"]),
        found["random_test_share"],
        {family: tuple(models) for family, models in found["families"].items()},
        tuple(found["models_left_out"]),
        tuple(tuple(group) for group in found["families_left_out_together"]),
        tuple(found["batches"]),
        tuple(found["batches_left_out"]),
    )


def zoo_options(model: str) -> tuple[str, dict[str, int]]:
    """The zoo's name and options of a model as the file writes it: `NAME KEY=VALUE ...`.

    Raises HeadwayError for anything else.
    """
    name, *options = model.split()
    pairs = [option.partition("=") for option in options]
    if not all(key and value.isdecimal() for key, _, value in pairs):
        raise HeadwayError(f"model {model!r}; accepted: a name of the zoo, then options as KEY=NUMBER")
    return name, {key: int(value) for key, _, value in pairs}


def folds(
    split: str,
    models: Sequence[tuple[str, str]],
    families: Sequence[tuple[str, str]],
    batches: Sequence[tuple[int, int]],
    splits: Splits,
) -> Iterator[Fold]:
    """The folds of a split over pairs, of which the models, families and batches of both are given.

    Where none of the models is among those that the file leaves out, each takes its turn in groups of
    neighbours, eight in all. Folds that would have too few rows do not come.

    Raises HeadwayError for an unknown split.
    """
    import numpy as np

    if split not in SPLITS:
        raise HeadwayError(f"split {split!r}; accepted: {', '.join(SPLITS)}")
    if not models:
        return
    for left_out, taught, asked in _FOLDS[split](
        np.array(models), np.array(families), np.array(batches), splits
    ):
        if taught.sum() >= FEWEST_TAUGHT and asked.sum() >= FEWEST_ASKED:
            yield Fold(left_out, taught, asked)


def _random(
    models: NDArray[np.str_], families: NDArray[np.str_], batches: NDArray[np.int64], splits: Splits
) -> Iterator[tuple[str, Rows, Rows]]:
    import numpy as np

    for seed in splits.seeds:
        asked: Rows = np.random.default_rng([seed, 0x5411]).random(len(models)) < splits.random_test_share
        yield f"rows of seed {seed}", ~asked, asked


def _model(
    models: NDArray[np.str_], families: NDArray[np.str_], batches: NDArray[np.int64], splits: Splits
) -> Iterator[tuple[str, Rows, Rows]]:
    import numpy as np

    there = sorted(set(models.ravel().tolist()))
    named: list[tuple[str, ...]] = [(model,) for model in splits.models_left_out if model in there]
    groups = named or [tuple(there[at::8]) for at in range(min(8, len(there)))]
    for group in groups:
        asked = np.asarray(np.isin(models, group).any(axis=1))
        yield group[0] if len(group) == 1 else f"{len(group)} models", ~asked, asked


def _family(
    models: NDArray[np.str_], families: NDArray[np.str_], batches: NDArray[np.int64], splits: Splits
) -> Iterator[tuple[str, Rows, Rows]]:
    import numpy as np

    for family in sorted(set(families.ravel().tolist())):
        asked = np.asarray(np.isin(families, [family]).any(axis=1))
        yield family, ~asked, asked


def _both(
    models: NDArray[np.str_], families: NDArray[np.str_], batches: NDArray[np.int64], splits: Splits
) -> Iterator[tuple[str, Rows, Rows]]:
    import numpy as np

    for group in splits.families_left_out_together:
        of_group = np.isin(families, group)
        some, both = np.asarray(of_group.any(axis=1)), np.asarray(of_group.all(axis=1))
        yield ", ".join(group), ~some, both


def _batch(
    models: NDArray[np.str_], families: NDArray[np.str_], batches: NDArray[np.int64], splits: Splits
) -> Iterator[tuple[str, Rows, Rows]]:
    import numpy as np

    new = np.isin(batches, splits.batches_left_out)
    some, both = np.asarray(new.any(axis=1)), np.asarray(new.all(axis=1))
    yield f"batches {', '.join(map(str, splits.batches_left_out))}", ~some, both


_FOLDS: Final = {
    "random": _random,
    "model": _model,
    "family": _family,
    "both": _both,
    "batch": _batch,
}
