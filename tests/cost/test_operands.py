"""Which operands stream through a layer's window, which stay, and which are applied to its result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.core.block import Mode
from headway.cost import build_table
from headway.cost.layer import layer_traffic
from headway.cost.operands import held, streamed
from headway.cost.shapes import shapes_of
from headway.models.graph import Graph, Operand


def with_operands(graph: Graph, index: int, *operands: Operand) -> Graph:
    layers = list(graph.layers)
    layers[index] = replace(layers[index], operands=operands)
    return replace(graph, layers=tuple(layers))


def halves(operand: Operand) -> tuple[Operand, Operand]:
    return tuple(replace(operand, tensor=name, bytes=operand.bytes // 2) for name in ("left", "right"))


@pytest.mark.parametrize("sram", [8 << 10, 16 << 10, 64 << 10, 1 << 20])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_parts_of_a_concatenation_cost_what_one_map_costs(network, device, sram, stride):
    net = network(16, 32, 32)
    net.conv(64, 3, stride=stride)
    whole = net.graph()
    parts = with_operands(whole, 0, *halves(whole.layers[0].operands[0]))
    described = device(sram=sram)
    core = described.cores[0]
    traffic = [layer_traffic(shapes_of(graph), core, 1.0) for graph in (whole, parts)]
    assert traffic[0].dram == traffic[1].dram
    assert traffic[0].sram == traffic[1].sram
    options = [build_table(graph, described).option(Mode.SPLIT, 0, 1, (0, 1)) for graph in (whole, parts)]
    assert options[0] == options[1]


def test_every_part_of_a_concatenation_is_buffered_with_its_halo(network, device):
    net = network(16, 32, 32)
    first = net.conv(16, 1)
    second = net.conv(16, 1)
    net.conv(16, 3)
    graph = net.graph()
    reader = graph.layers[2]
    concatenated = with_operands(graph, 2, Operand(*first), Operand(*second))
    added = with_operands(graph, 2, Operand(*second), Operand(*first, at_output=True))
    assert (streamed(concatenated.layers[2]), streamed(added.layers[2])) == ((0, 1), (0,))
    assert reader.row_kernel == 3
    row = 16 * 32
    weights = 16 * 16 + 16 * 16 + 9 * 16 * 16
    around = weights + 2 * 4 * row + 4 * row + 4 * row  # inputs of the 1x1 layers, output, next band
    need = {
        name: build_table(made, device()).option(Mode.FUSED, 0, 3, (0,), band_rows=4).sram_bytes
        for name, made in (("concatenated", concatenated), ("added", added))
    }
    # Two maps of 4 + 2 rows; or one, 4 rows of the summand, and 2 rows of it that wait for the window.
    assert need["concatenated"] == around + 2 * 6 * row
    assert need["added"] == around + 6 * row + 4 * row + 2 * row


def test_a_summand_is_read_once_however_often_the_input_streams(network, device):
    net = network(16, 32, 32)
    net.conv(512, 3)
    alone = net.graph()
    summand = Operand("other", alone.layers[0].output_bytes, 32, None, at_output=True)
    added = with_operands(alone, 0, alone.layers[0].operands[0], summand)
    core = device(sram=8 << 10).cores[0]
    before, after = (layer_traffic(shapes_of(graph), core, 1.0).dram[0] for graph in (alone, added))
    assert before > alone.layers[0].input_bytes + alone.weight_bytes + alone.layers[0].output_bytes
    assert after == before + summand.bytes


def test_keys_in_parts_stay_and_a_mask_does_not(network):
    # Scores of 8 queries of size 4 against 12 keys that lie in two tensors (a cache and new ones), masked.
    net = network(4, 8, 1)
    net.input = ("q", 32, 8, None)
    net.matmul(12)
    graph = net.graph()
    query = Operand("q", 32, 8, None)
    cache, new = Operand("past", 16, 4, None, row_wise=False), Operand("new", 32, 8, None, row_wise=False)
    mask = Operand("mask", 96, 8, None, at_output=True)
    product = replace(
        graph.layers[0], weight_is_activation=True, weight_bytes=0, operands=(query, cache, new, mask)
    )
    assert (streamed(product), held(product)) == ((0,), (1, 2))
    shapes = shapes_of(replace(graph, layers=(product,)))
    np.testing.assert_array_equal([shapes.main, shapes.held, shapes.side], [[32], [48], [96]])
    squared = replace(product, operands=(query, mask))  # x times its own transpose
    assert held(squared) == ()
    shapes = shapes_of(replace(graph, layers=(squared,)))
    np.testing.assert_array_equal([shapes.main, shapes.held, shapes.side], [[32], [0], [96]])
