"""What must hold for every way of running any network on any device."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.cost import build_table


@st.composite
def networks(draw, make):
    """Convolutions of several sizes and strides, some added to an earlier map of the same shape."""
    height = draw(st.integers(1, 40))
    net = make(draw(st.integers(1, 48)), height, height)
    for _ in range(draw(st.integers(2, 7))):
        kernel = draw(st.sampled_from([1, 1, 3, 5]))
        stride = draw(st.sampled_from([1, 1, 1, 2]))
        channels = draw(st.sampled_from([1, 8, 24, 64]))
        inputs = [net.last()]
        net.conv(channels, kernel, stride, inputs, row_wise=draw(st.integers(0, 9)) > 0)
        made = net.last()
        if draw(st.booleans()):
            alike = [
                (layer.output, layer.output_bytes, layer.output_rows, layer.index)
                for layer in net.layers[:-1]
                if (layer.output_bytes, layer.output_rows) == made[1:3]
            ]
            if alike:
                net.add([made, draw(st.sampled_from(alike))])
    return net.graph()


DEVICES = {
    "sram": st.sampled_from([2_000, 20_000, 100_000, 2_000_000]),
    "double_buffered": st.booleans(),
    "cores": st.integers(1, 5),
}


def offered(table):
    """Every option the table offers."""
    for block in range(table.blocks):
        yield from table.serial[block]
        yield from table.stacks(block)
        yield from table.pipelines(block)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_conservation(data, network, device):
    graph = data.draw(networks(network))
    described = device(**{name: data.draw(strategy) for name, strategy in DEVICES.items()})
    table = build_table(graph, described)
    for option in offered(table):
        layers = graph.layers[option.first : option.end]
        macs = sum(layer.macs for layer in layers)
        if option.mode is Mode.FUSED and option.macs != macs:
            assert macs < option.macs <= 1.101 * macs + 1  # recomputed halo
        else:
            assert option.macs == macs
        weights = sum(layer.weight_bytes for layer in layers)
        made_inside = {layer.output for layer in layers}
        outside = {
            # What the strides of a 1 x 1 convolution leave out need not be read.
            o.tensor: o.bytes * min(1.0, layer.row_kernel / layer.row_stride) ** 2
            for layer in layers
            for o in layer.operands
            if o.tensor not in made_inside
        }
        assert option.dram_bytes >= weights + sum(outside.values()) - 1e-6
        assert option.energy_pj >= 0
        assert (
            min(option.fixed_s, option.compute_s, option.link_bytes, option.spill_bytes, option.drain_s) >= 0
        )
        for kind in option.kinds:
            assert option.sram_bytes <= described.exemplars[kind].sram_bytes
        segments = table.segments(option)
        for name in ("fixed_s", "dram_bytes", "link_bytes", "energy_pj", "macs", "steps"):
            total = sum(getattr(segment, name) for segment in segments)
            assert total == pytest.approx(getattr(option, name))
        assert (segments[0].first_block, segments[-1].end_block) == (option.first, option.end)
        bandwidth = described.dram_bandwidth_bytes_s
        assert sum(s.solo_s(bandwidth) for s in segments) == pytest.approx(option.seconds(bandwidth))
        assert option.steps <= 64 * len(layers)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_options_cost_the_same_when_asked_for(data, network, device):
    graph = data.draw(networks(network))
    table = build_table(graph, device(**{name: data.draw(strategy) for name, strategy in DEVICES.items()}))
    for option in offered(table):
        again = table.option(
            option.mode, option.first, option.end, option.kinds, option.cuts, option.band_rows
        )
        assert again == option
        if option.mode is Mode.FUSED:
            assert table.option(Mode.FUSED, option.first, option.end, option.kinds) == option
            assert option.dram_bytes < option.serial_dram_bytes


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_fusion_is_not_faster_on_one_core_without_a_memory_limit(data, network, device):
    # Both pay one dispatch; bands pay fill and skew of the array again, and the switch.
    graph = data.draw(networks(network))
    table = build_table(graph, device(bandwidth=math.inf, sram=data.draw(DEVICES["sram"])))
    for block in range(table.blocks):
        for option in table.stacks(block):
            serial = table.option(Mode.SERIAL, option.first, option.end, option.kinds)
            assert option.seconds(math.inf) >= serial.seconds(math.inf) * (1 - 1e-9)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_more_bandwidth_is_never_slower(data, network, device):
    graph = data.draw(networks(network))
    chosen = {name: data.draw(strategy) for name, strategy in DEVICES.items()}
    tables = [build_table(graph, device(bandwidth=b, **chosen)) for b in (1e-3, 1e6, 1e9, 1e11, math.inf)]
    for slower, faster in pairwise(tables):
        for a, b in product(range(slower.blocks), range(len(slower.kinds))):
            assert faster.serial_s[a][b] <= slower.serial_s[a][b] * (1 + 1e-9)
    for table in tables:
        for option in offered(table):
            times = [option.seconds(bandwidth) for bandwidth in (1e-3, 1e6, 1e9, math.inf)]
            assert times == sorted(times, reverse=True)
            assert all(math.isfinite(time) for time in times)


def test_sums_and_shapes(residual, device):
    graph = residual()
    table = build_table(graph, device())
    assert table.blocks == len(graph.layers) == len(table.serial) == len(table.best_s)
    assert table.kinds == ("os", "ws")
    assert table.best_s == [min(row) for row in table.serial_s]
    assert table.remaining_s[0] == pytest.approx(sum(table.best_s))
    assert len(table.remaining_s) == table.blocks + 1
    assert table.remaining_s[-1] == 0.0
    assert isinstance(table.serial_s[0][0], float)


def test_a_serial_range_pays_one_dispatch_and_the_slower_of_compute_and_transfer_per_block(residual, device):
    described = device()
    table = build_table(residual(), described)
    option = table.option(Mode.SERIAL, 0, table.blocks, (1,))
    segments = table.segments(option)
    bandwidth = described.dram_bandwidth_bytes_s
    assert len(segments) == table.blocks
    assert option.seconds(bandwidth) == pytest.approx(sum(segment.solo_s(bandwidth) for segment in segments))
    alone = sum(row[1] for row in table.serial_s)
    assert option.seconds(bandwidth) <= alone - (table.blocks - 1) * described.dispatch_s + 1e-12
    assert option.dram_bytes < sum(options[1].dram_bytes for options in table.serial)


def test_fusion_saves_most_of_the_traffic_of_large_maps(network, device):
    net = network(16, 256, 256)
    for _ in range(6):
        net.conv(16)
    table = build_table(net.graph(), device(sram=1 << 20))
    longest = max(table.stacks(0), key=lambda option: option.end)
    assert longest.end == 6
    assert longest.dram_bytes < 0.2 * longest.serial_dram_bytes
    serial = table.option(Mode.SERIAL, 0, 6, longest.kinds)
    assert longest.seconds(1e9) < 0.5 * serial.seconds(1e9)
