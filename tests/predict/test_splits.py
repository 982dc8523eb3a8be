"""Splits: what is asked about was not taught, and the models are those of the zoo."""

from __future__ import annotations

import numpy as np
import pytest

from headway.core.errors import HeadwayError
from headway.models import zoo
from headway.predict.splits import SPLITS, folds, shipped_splits, zoo_options

RNG = np.random.default_rng(5)


def drawn(count: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[int, int]]]:
    """Models, families and batches of random pairs of the zoo."""
    splits = shipped_splits()
    there = [(model, family) for family, models in splits.families.items() for model in models]
    sizes = (*splits.batches, *splits.batches_left_out)
    models, families, batches = [], [], []
    for _ in range(count):
        (one, one_family), (other, other_family) = (there[int(at)] for at in RNG.integers(len(there), size=2))
        models.append((one, other))
        families.append((one_family, other_family))
        batches.append((int(RNG.choice(sizes)), int(RNG.choice(sizes))))
    return models, families, batches


def test_every_model_is_in_the_zoo_with_those_options() -> None:
    splits = shipped_splits()
    for models in splits.families.values():
        for model in models:
            name, options = zoo_options(model)
            known = {option.name for option in zoo.describe(name).options}
            assert set(options) <= known


def test_what_is_left_out_is_there_to_be_left_out() -> None:
    splits = shipped_splits()
    models = [model for each in splits.families.values() for model in each]
    assert len(set(models)) == len(models)
    assert set(splits.models_left_out) <= set(models)
    together = [family for group in splits.families_left_out_together for family in group]
    assert len(set(together)) == len(together)
    assert set(splits.families) <= set(together)
    assert not set(splits.batches) & set(splits.batches_left_out)


def test_nothing_that_is_asked_about_was_taught() -> None:
    splits = shipped_splits()
    models, families, batches = drawn(1_500)
    counts = {}
    for split in SPLITS:
        for fold in folds(split, models, families, batches, splits):
            counts[split] = counts.get(split, 0) + 1
            assert not (fold.taught & fold.asked).any()
            taught, asked = np.flatnonzero(fold.taught), np.flatnonzero(fold.asked)
            if split == "model":
                assert all(fold.left_out in models[at] for at in asked)
                assert not any(fold.left_out in models[at] for at in taught)
            elif split == "family":
                assert not any(fold.left_out in families[at] for at in taught)
            elif split == "both":
                new = {family for at in asked for family in families[at]}
                assert not any(new & set(families[at]) for at in taught)
            elif split == "batch":
                assert all(set(batches[at]) <= set(splits.batches_left_out) for at in asked)
                assert all(set(batches[at]) <= set(splits.batches) for at in taught)
    assert counts == {"random": 3, "model": 8, "family": 14, "both": 5, "batch": 1}


def test_models_that_the_file_does_not_name_take_turns() -> None:
    models = [(f"synthetic {at % 20}", f"synthetic {(at * 7 + 1) % 20}") for at in range(400)]
    families = [("dense", "mapping")] * 400
    asked = sum(fold.asked for fold in folds("model", models, families, [(0, 0)] * 400, shipped_splits()))
    assert (np.asarray(asked) >= 1).all()


def test_mistakes_are_named() -> None:
    with pytest.raises(HeadwayError, match="split 'rows'; accepted: random, model"):
        list(folds("rows", [("a", "b")], [("c", "d")], [(1, 1)], shipped_splits()))
    with pytest.raises(HeadwayError, match="accepted: a name of the zoo, then options as KEY=NUMBER"):
        zoo_options("bert_base sequence_length=long")
