"""Bands of columns, for maps that are wider than high."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_dependencies import dependences, within_window

from headway.core.block import Mode
from headway.cost import build_table
from headway.cost.columns import along_columns, has_wide_maps
from headway.models import load_model, merge, zoo
from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand


def convolutions(
    height: int, width: int, count: int, channels: int, kernel: int = 3, stride_x: int = 1
) -> Graph:
    """A chain of convolutions that keep the size of a map, but for strides along columns."""
    layers: list[Layer] = []
    columns = width
    for index in range(count):
        made = (columns - 1) // stride_x + 1
        pad = kernel // 2
        dims = LoopDims(
            K=channels, C=channels, OY=height, OX=made, FY=kernel, FX=kernel, stride_x=stride_x, pad_top=pad,
            pad_left=pad, pad_bottom=pad, pad_right=pad, IY=height, IX=columns,
        )  # fmt: skip
        read = Operand(f"t{index - 1}", channels * height * columns, height, index - 1 if index else None)
        layers.append(
            Layer(
                index=index, name=f"layer{index}", op="Conv", kind=LayerKind.CONV, dims=dims, macs=dims.macs,
                vector_ops=0, params=channels**2 * kernel**2, weight_bytes=channels**2 * kernel**2,
                operands=(read,), output=f"t{index}", output_bytes=channels * height * made,
                output_rows=height, row_kernel=kernel, row_pad=pad, is_output=index == count - 1,
            )
        )  # fmt: skip
        columns = made
    return Graph("wide", tuple(layers), "hash", 0, 0)


def turned(graph: Graph) -> Graph:
    """The same maps with rows and columns in each other's place."""
    layers = []
    for layer in graph.layers:
        d = layer.dims
        dims = LoopDims(
            K=d.K, C=d.C, OY=d.OX, OX=d.OY, FY=d.FX, FX=d.FY, stride_y=d.stride_x, stride_x=d.stride_y,
            pad_top=d.pad_left, pad_left=d.pad_top, pad_bottom=d.pad_right, pad_right=d.pad_bottom,
            IY=d.IX, IX=d.IY,
        )  # fmt: skip
        fields = {name: getattr(layer, name) for name in Layer.__slots__}
        fields |= {
            "dims": dims, "output_rows": dims.OY, "row_kernel": dims.FY, "row_stride": float(dims.stride_y),
            "row_pad": dims.pad_top,
            "operands": tuple(
                Operand(o.tensor, o.bytes, dims.IY, o.producer) for o in layer.operands
            ),
        }  # fmt: skip
        layers.append(Layer(**fields))
    return Graph("high", tuple(layers), "hash", 0, 0)


@settings(deadline=None, max_examples=30)
@given(
    height=st.integers(2, 12),
    factor=st.integers(2, 9),
    count=st.integers(2, 5),
    kernel=st.sampled_from([1, 3, 5]),
    stride=st.sampled_from([1, 1, 2]),
    sram=st.integers(30_000, 300_000),
    band=st.integers(1, 80),
)
def test_a_wide_map_costs_what_a_high_one_does(device, height, factor, count, kernel, stride, sram, band):
    # Systolic arrays see a map as pixels, so that turning it changes nothing but the axis.
    wide = convolutions(height, height * factor * stride**count, count, 16, kernel, stride)
    machine = device(sram=sram)
    tables = build_table(wide, machine), build_table(turned(wide), machine)
    for first in range(count):
        for end in range(first + 2, count + 1):
            for kind in (0, 1):
                found = []
                for table in tables:
                    try:
                        found.append(table.option(Mode.FUSED, first, end, (kind,), (), band))
                    except ValueError:
                        found.append(None)
                if None in found:
                    assert found == [None, None]
                    continue
                a, b = found
                assert (a.axis, b.axis) == ("columns", "rows")
                assert (a.band_rows, a.steps, a.macs) == (b.band_rows, b.steps, b.macs)
                assert (a.sram_bytes, a.dram_bytes, a.compute_s) == pytest.approx(
                    (b.sram_bytes, b.dram_bytes, b.compute_s)
                )


def test_narrow_bands_of_a_wide_map_need_less_than_low_ones(device):
    graph = convolutions(8, 1024, 6, 32)
    lines = 8 * 32  # bytes of a column of all channels
    table = build_table(graph, device(sram=96 << 10))
    option = table.option(Mode.FUSED, 0, 6, (0,), (), 16)
    assert option.axis == "columns"
    assert (option.band_rows, option.steps) == (16, 64)
    weights = 6 * 32 * 32 * 9
    assert option.sram_bytes == weights + 6 * 18 * lines + 2 * 16 * lines
    assert option.dram_bytes == 2 * 1024 * lines + weights
    # Lines of rows would be 128 times as long as columns are high.
    assert 6 * 2 * 1024 * 32 > 96 << 10


def test_an_offer_is_asked_for_without_its_axis(device):
    table = build_table(convolutions(6, 300, 4, 32), device(bandwidth=1e9, sram=100_000))
    seen = set()
    for block in range(4):
        for option in (*table.stacks(block), *table.pipelines(block)):
            asked = (option.mode, option.first, option.end, option.kinds, option.cuts, option.band_rows)
            assert table.option(*asked) == option
            seen.add((option.mode, option.axis))
    assert seen == {(Mode.FUSED, "columns"), (Mode.PIPELINE, "columns")}


def test_maps_as_high_as_wide_stay_with_rows(chain, device):
    assert not has_wide_maps(chain())
    table = build_table(chain(), device())
    assert {option.axis for option in (*table.stacks(0), *table.pipelines(0))} == {"rows"}


WIDE = {
    "fsrcnn": {"image_size": 24, "scale": 3},
    "kws_res8": {"frames": 20},  # 20 frames of 40 coefficients
    "mobilenet_v3_small": {"image_size": 64},
    "resnet18": {"image_size": 64},
    "shufflenet_v2": {"image_size": 64},
    "squeezenet": {"image_size": 75},
    "unet": {"image_size": 48, "base_width": 8},
}


@pytest.mark.parametrize("name", sorted(WIDE))
def test_columns_are_traced_through_models(name):
    """As for rows (`test_row_dependencies`): no column needs more than the window that is counted for it."""
    model = zoo.build(name, **WIDE[name])
    along = along_columns(merge(load_model(model)))
    claimed = 0
    for dependence in dependences(model, along):
        operand, layer = dependence.operand, dependence.layer
        producer = along.layers[operand.producer]
        if operand.row_wise and operand.rows == producer.output_rows and layer.output_rows > 1:
            assert within_window(dependence), layer.name
            claimed += 1
    assert claimed > 4
