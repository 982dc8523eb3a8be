"""Where a run that goes layer by layer can stop."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.cost import build_table


@pytest.mark.parametrize(
    ("rows", "units"), [(1, 1), (7, 7), (64, 64), (65, 33), (100, 50), (128, 64), (130, 44), (1000, 63)]
)
def test_row_blocks_of_a_product_are_as_high_as_it_takes_for_at_most_64(network, device, rows, units):
    net = network(16, 1, 1)
    net.input = ("input", 16 * rows, rows, None)
    net.matmul(32)
    net.matmul(32)
    table = build_table(net.graph(), device())
    for block in range(2):
        assert [option.steps for option in table.serial[block]] == [units, units]
        (segment,) = table.segments(table.serial[block][0])
        assert segment.steps == units
        assert table.option(Mode.SPLIT, block, block + 1, (0, 1)).steps == units
    assert table.option(Mode.SERIAL, 0, 2, (0,)).steps == 2 * units


@pytest.mark.parametrize(("columns", "units"), [(10, 1), (128, 2), (1000, 15), (4096, 64), (50_000, 64)])
def test_a_single_row_is_cut_into_blocks_of_columns(network, device, columns, units):
    net = network(256, 1, 1)
    net.matmul(columns)
    assert build_table(net.graph(), device()).serial[0][0].steps == units


@settings(deadline=None, max_examples=50)
@given(rows=st.integers(1, 3000), channels=st.sampled_from([1, 300]))
def test_units_are_equal_rows_but_for_the_last(network, device, rows, channels):
    net = network(4, 1, 1)
    net.input = ("input", 4 * rows, rows, None)
    net.matmul(channels)
    units = build_table(net.graph(), device()).serial[0][0].steps
    assert 1 <= units <= 64
    cut = rows if rows > 1 else channels
    height = -(-cut // units)
    assert (units - 1) * height < cut <= units * height
