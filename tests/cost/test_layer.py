"""One layer on one core: traffic, what stays in SRAM, time, energy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import describe_hardware, load_hardware
from headway.core.block import Mode
from headway.core.device import Core, Dataflow
from headway.cost import build_table, systolic_cycles
from headway.cost.breakdown import layer_terms
from headway.cost.layer import layer_traffic
from headway.cost.shapes import shapes_of


def core(sram: int, double_buffered: bool = True) -> Core:
    return Core(
        0, "core", "kind", 32, 32, Dataflow.OUTPUT_STATIONARY, 1e9, sram, 64, 0.04, 0.5, double_buffered
    )


def traffic(graph, sram: int) -> np.ndarray:
    return layer_traffic(shapes_of(graph), core(sram), 1.0).dram


def test_a_layer_that_fits_moves_every_tensor_once(chain):
    # 56 x 56 x 64 in and out, 3 x 3 x 64 x 64 weights, no padding counted.
    assert traffic(chain(1), 1 << 20)[0] == 2 * 200_704 + 36_864


def test_weights_that_do_not_fit_beside_the_input_stream_past_it(network):
    # A matrix product with one row: the input stays, 1000 x 4096 weights stream once, far above the SRAM.
    net = network(4096, 1, 1)
    net.matmul(1000)
    assert traffic(net.graph(), 64 << 10)[0] == 4096 + 4_096_000 + 1000


def test_reload_factor_when_nothing_fits(network):
    # 512 x 512 times 512 x 512 in 64 KiB: neither factor fits, one of them is read several times.
    net = network(512, 512, 1)
    net.input = ("input", 512 * 512, 512, None)
    net.matmul(512)
    moved = traffic(net.graph(), 64 << 10)[0]
    assert moved > 3 * 512 * 512
    # Hong and Kung: at least 2 MNK / sqrt(S) elements plus the output.
    assert moved >= 2 * 512**3 / (64 << 10) ** 0.5


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 64), st.integers(1, 512), st.integers(1, 512), st.sampled_from([1, 3, 5]),
    st.lists(st.integers(256, 4 << 20), min_size=2, max_size=6),
)  # fmt: skip
def test_more_sram_never_means_more_traffic(network, height, channels_in, channels_out, kernel, sizes):
    net = network(channels_in, height, height)
    net.conv(channels_out, kernel)
    graph = net.graph()
    moved = [traffic(graph, sram)[0] for sram in sorted(sizes)]
    assert moved == sorted(moved, reverse=True)
    layer = graph.layers[0]
    assert min(moved) >= layer.input_bytes + layer.weight_bytes + layer.output_bytes
    assert np.isfinite(moved).all()


def test_groups_need_only_one_group_in_sram(network):
    # 256 groups of one channel: 56 x 56 bytes each, 100 KiB suffice where a dense layer reloads.
    depthwise = network(256, 56, 56)
    depthwise.conv(256, 3, groups=256)
    layer = depthwise.graph().layers[0]
    assert traffic(depthwise.graph(), 16 << 10)[0] == 2 * layer.output_bytes + layer.weight_bytes


def test_time_is_fill_and_the_larger_of_compute_and_transfer(chain, device):
    graph = chain(1)
    for bandwidth in (1e9, 8e9, 1e12):
        described = device(bandwidth=bandwidth)
        table = build_table(graph, described)
        moved = 2 * 200_704 + 36_864
        cycles = systolic_cycles(3136, 64, 576, 32, 32, Dataflow.OUTPUT_STATIONARY)
        fill = (32 * 32 + 3 * 56 * 64) / bandwidth
        expected = 1e-6 + max(fill + cycles * 1e-9, moved / bandwidth)
        assert table.serial_s[0][0] == pytest.approx(expected)
        assert table.serial[0][0].seconds(bandwidth) == pytest.approx(expected)


def test_without_double_buffering_nothing_overlaps(chain, device):
    table = build_table(chain(1), device(double_buffered=False))
    cycles = systolic_cycles(3136, 64, 576, 32, 32, Dataflow.OUTPUT_STATIONARY)
    assert table.serial_s[0][0] == pytest.approx(1e-6 + cycles * 1e-9 + (2 * 200_704 + 36_864) / 8e9)


def test_energy_adds_up(chain, device):
    option = build_table(chain(1), device()).serial[0][0]
    work = 115_605_504 + 200_704
    array = 3136 * 576 * 2 + 576 * 64 * 98 + 3136 * 64
    moved = 2 * 200_704 + 36_864
    assert option.energy_pj == pytest.approx(work * 0.04 + (array + moved) * 0.5 + moved * 87.5)


def test_output_stays_in_sram_where_it_fits(chain, device):
    table = build_table(chain(3), device(sram=1 << 20))
    map_bytes = 200_704.0
    assert table.kept_bytes == [[0.0, 0.0], [map_bytes, map_bytes], [map_bytes, map_bytes]]
    assert table.unwritten_bytes == [[map_bytes, map_bytes], [map_bytes, map_bytes], [0.0, 0.0]]
    run = table.option(Mode.SERIAL, 0, 3, (0,))
    assert run.dram_bytes == 2 * map_bytes + 3 * 36_864
    assert [segment.dram_bytes for segment in table.segments(run)] == [
        map_bytes + 36_864, 36_864, map_bytes + 36_864,
    ]  # fmt: skip
    small = build_table(chain(3), device(sram=200 << 10))
    assert small.kept_bytes == small.unwritten_bytes == [[0.0, 0.0]] * 3


def test_an_output_that_somebody_else_reads_too_is_written(network, device):
    net = network(16, 16, 16)
    first = net.conv(16)
    second = net.conv(16)
    net.add([second, first])
    table = build_table(net.graph(), device())
    assert table.unwritten_bytes[0] == [0.0, 0.0]
    assert table.kept_bytes[1][0] == first[1]
    assert table.unwritten_bytes[1][0] == second[1]


def test_nothing_is_free(network, device):
    net = network(1, 1, 1)
    net.add([net.input])
    empty = net.graph().layers[0]
    nothing = replace(empty, vector_ops=0, operands=(), output_bytes=0, output_rows=0)
    graph = replace(net.graph(), layers=(nothing,))
    table = build_table(graph, device(dispatch_s=0.0))
    assert table.serial_s[0][0] == pytest.approx(1e-9)
    with pytest.raises(ValueError, match="no layers"):
        build_table(replace(graph, layers=()), device())


def test_a_strided_1_x_1_convolution_reads_what_it_touches(network):
    net = network(64, 56, 56)
    net.conv(128, 1, stride=2)
    assert traffic(net.graph(), 1 << 20)[0] == 28 * 28 * (64 + 128) + 64 * 128
    wider = network(64, 56, 56)
    wider.conv(128, 3, stride=2)  # windows overlap: nothing is left out
    assert traffic(wider.graph(), 1 << 20)[0] == 56 * 56 * 64 + 28 * 28 * 128 + 64 * 128 * 9


def weights_past_sram(sram_kib: int, registers: int = 128):
    """ZigZag's TPU-like core: weights go from DRAM into registers, inputs and outputs lie in SRAM."""
    data = describe_hardware("zigzag-tpu-like").to_mapping()
    memories = {memory["name"]: memory for memory in data["cores"][0]["memories"]}
    memories["rf_weights"]["size"] = f"{registers} B"
    memories["sram"]["size"] = f"{sram_kib} KiB"
    return load_hardware(data).cores[0]


def test_weights_that_go_past_the_sram_are_loaded_once_while_the_inputs_stay(network):
    # 512 x 512 x 3 x 3 weights are 18 times the registers of 1024 units; the map is 98 KiB.
    net = network(512, 14, 14)
    net.conv(512, 3)
    shapes = shapes_of(net.graph())
    once = 2 * 512 * 14 * 14 + 512 * 512 * 9
    assert layer_traffic(shapes, weights_past_sram(2048), 1.0).dram[0] == once
    # With less SRAM than the map neither stays: something is read again.
    tight = layer_traffic(shapes, weights_past_sram(64), 1.0).dram[0]
    assert tight > once
    # In registers that hold all of them weights stay, and the map passes once, whatever the SRAM.
    assert layer_traffic(shapes, weights_past_sram(64, 4096), 1.0).dram[0] == once


def test_tables_have_the_traffic_of_mappings_where_weights_go_past_the_sram(network):
    net = network(64, 28, 28)
    for channels, kernel, stride in ((128, 3, 1), (256, 1, 2), (256, 3, 1)):
        net.conv(channels, kernel, stride, [net.last()])
    graph, device = net.graph(), load_hardware("zigzag-tpu-like")
    table = build_table(graph, device)
    for block, (terms,) in enumerate(layer_terms(graph, device)):
        assert table.serial[block][0].dram_bytes == pytest.approx(terms.dram_bytes, rel=0.02)


def test_inputs_do_not_lie_where_outputs_do(network):
    """ShiDianNao has 64 KiB for inputs and as much for outputs; 98 KiB of inputs do not fit either."""
    net = network(128, 28, 28)
    net.conv(256, 3, stride=2)
    graph = net.graph()
    (layer,) = graph.layers
    once = layer.input_bytes + layer.weight_bytes + layer.output_bytes
    described = describe_hardware("shidiannao").to_mapping()
    assert build_table(graph, load_hardware(described)).serial[0][0].dram_bytes > once
    (inputs,) = (m for m in described["cores"][0]["memories"] if m["operands"] == ["I"])
    inputs["size"] = "128 KiB"
    assert build_table(graph, load_hardware(described)).serial[0][0].dram_bytes == once
