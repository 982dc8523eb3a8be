"""Nests priced for tables: the sorts of layers, and that the few orders tried find what all orders find."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headway.config.hardware import load_hardware
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Hierarchy
from headway.cost import Nest, build_table, map_layer
from headway.cost.nest import AT
from headway.cost.oncore import nest_row, oncore_costs, unbounded

RUNS = json.loads((Path(__file__).parent / "facts" / "zigzag.json").read_text())["runs"]
FREE = 1 << 40


def hierarchy_of(preset: str) -> Hierarchy:
    hierarchy = load_hardware(preset).cores[0].hierarchy
    assert hierarchy is not None
    return hierarchy


def cycles(preset: str, sizes: dict[str, int], stride: int = 1, dilation: int = 1) -> float:
    row = nest_row(sizes, (stride, stride, dilation, dilation), None, 8)
    return float(oncore_costs(np.array([row]), hierarchy_of(preset))[0][0])


@pytest.mark.parametrize("preset", sorted({run["accelerator"] for run in RUNS}))
def test_few_orders_find_what_all_orders_find(preset: str) -> None:
    for run in RUNS:
        if run["accelerator"] == preset and run["network"] != "other":
            nest = Nest.of(run["loops"], stride=run["stride"])
            full = map_layer(nest, unbounded(hierarchy_of(preset))).latency_cycles
            assert cycles(preset, run["loops"], run["stride"]) <= full * 1.005


def test_sorts_of_layers_on_a_core_that_unrolls_channels() -> None:
    """K 32 x C 32: what a dense convolution, a grouped and a depthwise one, and heads keep busy."""
    dense = {"K": 64, "C": 64, "OY": 14, "OX": 14, "FY": 3, "FX": 3}
    core = "stream-tpu-like"
    pixels, taps = 14 * 14, 9
    expected = [
        (dense, 1, 1, 2 * 2 * pixels * taps),
        (dense, 2, 1, 2 * 2 * pixels * taps),
        (dense, 1, 2, 2 * 2 * pixels * taps),
        ({**dense, "G": 4, "K": 16, "C": 16}, 1, 1, 4 * pixels * taps),
        ({**dense, "G": 64, "K": 1, "C": 1}, 1, 1, 64 * pixels * taps),
        ({"G": 12, "OY": 128, "K": 128, "C": 64}, 1, 1, 12 * 128 * 4 * 2),
    ]
    for sizes, stride, dilation, compute in expected:
        assert compute <= cycles(core, sizes, stride, dilation) <= compute * 1.02 + 100


def test_rows_of_a_product_lie_on_unrolled_rows_and_columns() -> None:
    """32 x 2 x 4 x 4: 16 rows at once."""
    assert cycles("meta-prototype", {"OY": 128, "K": 32, "C": 2}) == pytest.approx(128 / 16, abs=60)
    assert cycles("meta-prototype", {"OY": 4096, "K": 64, "C": 64}) == pytest.approx(
        4096 / 16 * 2 * 32, rel=0.01
    )


def test_what_the_topmost_memory_holds_does_not_matter() -> None:
    hierarchy = hierarchy_of("stream-tpu-like")
    rows = np.array([nest_row({"K": 512, "C": 512, "OY": 56, "OX": 56}, (1, 1, 1, 1), None, 8)])
    small = replace(hierarchy, memories=tuple(replace(m, bits=min(m.bits, 4096)) for m in hierarchy.memories))
    assert oncore_costs(rows, small)[0] == oncore_costs(rows, hierarchy)[0]


def test_twice_the_units_behind_the_same_ports_are_never_slower() -> None:
    """Random products on narrow ports, where half of a larger array can be better than all of it."""
    hierarchy = hierarchy_of("gemmini")
    doubled = replace(hierarchy, axes=((("K", 32),), (("C", 16),)))
    rng = np.random.default_rng(7)
    rows = np.array(
        [
            nest_row(
                dict(zip(("K", "C", "OY", "OX"), rng.integers(1, 70, 4).tolist(), strict=True)),
                (1,) * 4,
                None,
                8,
            )
            for _ in range(60)
        ]
    )
    assert np.all(oncore_costs(rows, doubled)[0] <= oncore_costs(rows, hierarchy)[0] * (1 + 1e-9))


def test_a_core_that_can_hold_nothing_is_refused() -> None:
    hierarchy = hierarchy_of("meta-prototype")
    tiny = replace(hierarchy, memories=(replace(hierarchy.memories[0], bits=4), *hierarchy.memories[1:]))
    rows = np.array([nest_row({"K": 2}, (1, 1, 1, 1), None, 8)])
    with pytest.raises(HeadwayError, match=r"no mapping fits a core: .*rf_weights"):
        oncore_costs(rows, tiny)


def test_a_table_has_what_the_nests_cost(network) -> None:
    """Serial time is the larger of fill and cycles, and of bytes; bands shorten the rows."""
    net = network(64, 56, 56)
    net.conv(64, 3)
    device = load_hardware("stream-tpu-like")
    table = build_table(net.graph(), device)
    row = nest_row({"K": 64, "C": 64, "OY": 56, "OX": 56, "FY": 3, "FX": 3}, (1, 1, 1, 1), (56, 56), 8)
    inside = oncore_costs(np.array([row]), hierarchy_of("stream-tpu-like"))[0][0]
    option = table.serial[0][0]
    assert option.compute_s * 1e9 == pytest.approx(inside)
    assert inside == pytest.approx(113_401, rel=0.01)
    assert row[AT["OY"]] == 56
    assert option.dram_bytes == 64 * 56 * 56 * 2 + 64 * 64 * 9
