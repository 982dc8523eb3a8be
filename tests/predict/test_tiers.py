"""How much is known of a model."""

from __future__ import annotations

from headway.predict.tiers import CLASS_OVERLAPS, FIRST_OVERLAPS, OWN_OVERLAPS, Tier, Tiers


def tiers(profiled=None) -> Tiers:
    classes = {"old": [0, 1], "new": [1, 2], "odd": [7]}
    return Tiers(lambda model: classes[model], lambda model: 2, profiled)


def test_a_model_without_a_profile_needs_three_runs_of_every_block():
    known = tiers({"new": 0})
    assert known.of("new") is Tier.C0
    for _ in range(3):
        known.ran_alone("new", 0, 2)
    assert known.of("new") is Tier.C1
    partly = tiers({"new": 1})
    for _ in range(5):
        partly.ran_alone("new", 0, 1)
    assert partly.of("new") is Tier.C0  # its second block ran once
    assert tiers().of("new") is Tier.C1  # loading profiles it


def test_five_of_its_own_or_twenty_in_its_classes():
    known = tiers()
    for _ in range(FIRST_OVERLAPS):
        assert known.of("old") is Tier.C1
        known.overlapped("old", (0, 1))
    assert known.of("old") is Tier.C2
    assert known.of("new") is Tier.C1
    for _ in range(CLASS_OVERLAPS - FIRST_OVERLAPS):
        known.overlapped("old", (1, 1))
    assert known.of("new") is Tier.C2  # it shares class 1
    assert known.of("odd") is Tier.C1


def test_a_hundred_of_its_own_and_drift_goes_down_one_by_one():
    known = tiers()
    for _ in range(OWN_OVERLAPS):
        known.overlapped("old", (0, 1))
    assert known.of("old") is Tier.C3
    known.drifted("old")
    assert known.of("old") is Tier.C2
    known.drifted("old")
    assert known.of("old") is Tier.C1  # those of its classes, from before, do not count either
    known.drifted("old")
    assert known.of("old") is Tier.C1
    for _ in range(FIRST_OVERLAPS):
        known.overlapped("old", (0, 1))
    assert known.of("old") is Tier.C2
