"""Attention fused over heads and query rows: keys and values stay, scores never leave the core."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.core.device import Dataflow
from headway.cost import build_table, systolic_cycles
from headway.cost.model import Model
from headway.models import at_width, load_model, merge, zoo
from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand


def product(index, heads, rows, columns, reduction, operands):
    dims = LoopDims(B=heads, OY=rows, K=columns, C=reduction)
    return Layer(
        index=index, name=f"layer{index}", op="MatMul", kind=LayerKind.MATMUL, dims=dims, macs=dims.macs,
        vector_ops=0, params=0, weight_bytes=0, operands=operands, output=f"t{index}",
        output_bytes=heads * rows * columns, output_rows=heads * rows, weight_is_activation=True,
    )  # fmt: skip


def attention(heads: int, queries: int, keys: int, size: int) -> Graph:
    """Scores, softmax and context of queries, keys and values that come from outside; a byte an element."""
    rows = heads * queries

    def given(name: str, length: int) -> Operand:
        whole = name != "q"
        return Operand(name, heads * length * size, heads * length, None, row_wise=not whole)

    scores = product(0, heads, queries, keys, size, (given("q", queries), given("k", keys)))
    softmax = Layer(
        index=1, name="layer1", op="Softmax", kind=LayerKind.NORM, dims=LoopDims(), macs=0,
        vector_ops=5 * rows * keys, params=0, weight_bytes=0,
        operands=(Operand("t0", rows * keys, rows, 0),), output="t1", output_bytes=rows * keys,
        output_rows=rows,
    )  # fmt: skip
    context = product(2, heads, queries, size, keys, (Operand("t1", rows * keys, rows, 1), given("v", keys)))
    layers = (
        scores,
        softmax,
        Layer(**{**{f: getattr(context, f) for f in Layer.__slots__}, "is_output": True}),
    )
    return Graph("attention", layers, "hash", 0, 0)


def test_only_queries_keys_values_and_the_result_cross_the_memory_interface(device):
    heads, queries, keys, size = 4, 128, 256, 64
    graph = attention(heads, queries, keys, size)
    scores = heads * queries * keys
    table = build_table(graph, device(sram=96 << 10))
    serial = table.option(Mode.SERIAL, 0, 3, (0,))
    fused = table.option(Mode.FUSED, 0, 3, (0,))
    maps = heads * size * (queries + 2 * keys + queries)
    assert fused.dram_bytes == maps
    assert serial.dram_bytes - fused.dram_bytes == 4 * scores  # scores and probabilities, written and read


@pytest.mark.parametrize(
    ("rows", "bands"), [(16, 32), (32, 16), (48, 12), (128, 4), (256, 2), (300, 2), (384, 2)]
)
def test_bands_are_parts_of_one_head_or_whole_heads(device, rows, bands):
    heads, queries, keys, size = 4, 128, 256, 64
    table = build_table(attention(heads, queries, keys, size), device(sram=8 << 20))
    option = table.option(Mode.FUSED, 0, 3, (0,), (), rows)
    assert option.steps == bands
    assert option.band_rows % queries == 0 or queries % option.band_rows < option.band_rows < queries
    assert option == table.option(Mode.FUSED, 0, 3, (0,), (), option.band_rows)


def test_memory_of_one_head_and_time_of_its_bands(device):
    heads, queries, keys, size = 4, 128, 256, 64
    described = device(bandwidth=1e12, sram=8 << 20)
    option = build_table(attention(heads, queries, keys, size), described).option(
        Mode.FUSED, 0, 3, (0,), (), 32
    )
    row = keys  # bytes of a row of scores
    inputs = 32 * (size + row + row) + 2 * 2 * keys * size  # keys and values of this head and the next
    output, prefetch = 32 * row, 32 * size
    assert option.sram_bytes == inputs + output + prefetch

    def product_of(columns, reduction):
        return systolic_cycles(32, columns, reduction, 32, 32, Dataflow.OUTPUT_STATIONARY) + 1

    cycles = 16 * (product_of(keys, size) + 5 * 32 * keys // 64 + product_of(size, keys)) - 2
    assert option.compute_s == pytest.approx(cycles * 1e-9 + 16e-7)


@settings(deadline=None, max_examples=60)
@given(
    heads=st.integers(1, 16),
    queries=st.integers(1, 200),
    keys=st.integers(1, 200),
    asked=st.one_of(st.none(), st.integers(1, 700)),
    size=st.sampled_from([8, 64]),
)
def test_work_and_traffic_are_those_of_the_whole(device, heads, queries, keys, asked, size):
    graph = attention(heads, queries, keys, size)
    table = build_table(graph, device(sram=64 << 20))
    option = table.option(Mode.FUSED, 0, 3, (1,), (), asked)
    assert option.macs == graph.macs == 2 * heads * queries * keys * size
    assert option.dram_bytes == heads * size * 2 * (queries + keys)
    rows, band = heads * queries, option.band_rows
    if band == rows:
        assert option.steps == min(64, sum(table.serial[block][0].steps for block in range(3)))
    elif band < queries:
        assert option.steps == heads * -(-queries // band)
    else:
        assert band % queries == 0
        assert option.steps == -(-rows // band)
    assert option.compute_s >= table.option(Mode.FUSED, 0, 3, (1,), (), rows).compute_s * (1 - 1e-12)


@pytest.mark.parametrize(("name", "options"), [("bert_small", {"sequence_length": 256}), ("swin_tiny", {})])
def test_attention_of_models_goes_head_by_head(device, name, options):
    graph = merge(at_width(load_model(zoo.build(name, weights=False, **options)), 1.0))
    described = device(sram=384 << 10)
    shapes = Model.of(graph, described).shapes
    table = build_table(graph, described)
    found = 0
    for layer in graph.layers:
        if layer.kind is LayerKind.MATMUL and layer.weight_is_activation and layer.dims.K == layer.dims.OY:
            first = layer.index
            assert shapes.groups[first] == layer.dims.B
            end = first + 3
            assert graph.layers[end - 1].weight_is_activation
            option = table.option(Mode.FUSED, first, end, (0,))
            serial = table.option(Mode.SERIAL, first, end, (0,))
            assert option.dram_bytes <= serial.dram_bytes
            found += option.dram_bytes < serial.dram_bytes
    assert found >= 4
