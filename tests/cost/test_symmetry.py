"""Half of all loop orders where rows and columns are alike: when that is so, and that nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.config.hardware import load_hardware
from headway.core.hierarchy import Hierarchy, main_memory
from headway.cost import candidates
from headway.cost.nest import AT, Nest
from headway.cost.orders import MIRRORED, all_orders
from headway.cost.symmetry import is_symmetric

SQUARE = Nest.of({"K": 64, "C": 64, "OY": 28, "OX": 28, "FY": 3, "FX": 3}, input_rows=28, input_columns=28)


def hierarchy_of(name: str) -> Hierarchy:
    inside = load_hardware(name).cores[0].hierarchy
    assert inside is not None
    return inside.under(main_memory(64, 7.5, 7.5, len(inside.axes)))


@pytest.mark.parametrize(
    ("name", "alike"),
    [("zigzag-tpu-like", True), ("meta-prototype", True), ("tesla-npu", False), ("eyeriss", False)],
)
def test_arrays_on_which_rows_and_columns_are_alike(name: str, alike: bool) -> None:
    assert is_symmetric(SQUARE, hierarchy_of(name)) is alike


def test_memories_that_serve_rows_only_are_not() -> None:
    hierarchy = hierarchy_of("meta-prototype")
    rows = next(i for i, axis in enumerate(hierarchy.axes) if axis[0][0] == "OY")
    first, *others = hierarchy.memories
    assert not is_symmetric(SQUARE, replace(hierarchy, memories=(replace(first, axes=(rows,)), *others)))


@pytest.mark.parametrize(
    "change",
    [{"stride_y": 2}, {"dilation_x": 2}, {"input_rows": 27}, {"sizes": (1, 1, 64, 64, 28, 14, 3, 3)}],
)
def test_layers_that_are_not_square(change: dict) -> None:
    assert not is_symmetric(replace(SQUARE, **change), hierarchy_of("zigzag-tpu-like"))


def orders_of(temporal: tuple[int, ...], symmetric: bool) -> set[tuple[tuple[int, int], ...]]:
    loops, sizes = all_orders(temporal, 8, symmetric)
    return {
        tuple((int(dim), int(size)) for dim, size in zip(*order, strict=True))
        for order in zip(loops, sizes, strict=True)
    }


def test_of_each_order_and_its_mirror_image_one_is_left() -> None:
    temporal = (1, 1, 2, 2, 28, 28, 3, 3)
    whole, half = orders_of(temporal, False), orders_of(temporal, True)
    images = {tuple((int(MIRRORED[dim]), size) for dim, size in order) for order in half}
    assert half < whole
    assert half | images == whole
    assert not half & images  # every order has rows and columns, so none is its own image


@pytest.mark.parametrize("name", ["zigzag-tpu-like", "meta-prototype"])
@pytest.mark.parametrize("overlap", ["physical", "zigzag"])
@pytest.mark.parametrize("taps", [1, 3])
def test_nothing_is_lost(name: str, overlap: str, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hierarchy = hierarchy_of(name)
    sizes = {"K": 64, "C": 128, "OY": 28, "OX": 28, "FY": taps, "FX": taps}
    nest = Nest.of(sizes, input_rows=28, input_columns=28)

    def costs() -> tuple[int, set[tuple[float, float]]]:
        tried = candidates.candidates(nest, hierarchy, overlap, ("W", "I", "O"))
        latency, traffic = (
            np.concatenate([getattr(each, name) for each in tried]) for name in ("latency", "traffic_bits")
        )
        return len(latency), set(zip(latency.round(3).tolist(), traffic.round(3).tolist(), strict=True))

    few, left = costs()
    monkeypatch.setattr(candidates, "is_symmetric", lambda nest, hierarchy: False)
    many, every = costs()
    assert few < many
    assert left == every


def test_mirrored_is_its_own_inverse() -> None:
    assert MIRRORED[MIRRORED].tolist() == list(range(len(MIRRORED)))
    assert MIRRORED[AT["FY"]] == AT["FX"]
