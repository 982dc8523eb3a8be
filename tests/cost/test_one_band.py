"""Barriers, and the one band that crosses them: all maps of a stack stay in SRAM."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.cost import build_table
from headway.cost.model import Model
from headway.models.graph import Layer


def most_live_bytes(layers: list[Layer]) -> int:
    """By going through the layers in order, every tensor there from its first use to its last."""
    sizes: dict[str, int] = {}
    uses: dict[str, list[int]] = {}
    for place, layer in enumerate(layers):
        for tensor, size in [(o.tensor, o.bytes) for o in layer.operands] + [
            (layer.output, layer.output_bytes)
        ]:
            sizes[tensor] = max(size, sizes.get(tensor, 0))
            uses.setdefault(tensor, []).append(place)
    return max(
        sum(sizes[tensor] for tensor, places in uses.items() if min(places) <= place <= max(places))
        for place in range(len(layers))
    )


def test_a_stack_ends_before_a_barrier_unless_one_band_covers_it(network, device):
    net = network(8, 32, 32)
    net.conv(8)
    net.conv(8, 3, row_wise=False)  # an instance normalisation would be such a layer
    net.conv(8)
    graph = net.graph()
    table = build_table(graph, device())
    for rows in (1, 8, 31):
        with pytest.raises(ValueError, match="layer1 needs all rows of layer0"):
            table.option(Mode.FUSED, 0, 3, (0,), (), rows)
    with pytest.raises(ValueError, match="layer1 needs all rows of layer0"):
        table.option(Mode.PIPELINE, 0, 3, (0, 1))
    option = table.option(Mode.FUSED, 0, 3, (0,))
    assert option.band_rows == 32
    assert option.steps == 64  # units of 32 rows of each layer, at most 64
    assert option.spill_bytes == 2 * 32 * 32 * 8  # a stop writes the maps that lie there
    assert option == table.option(Mode.FUSED, 0, 3, (0,), (), 32)
    assert option.dram_bytes == 2 * 32 * 32 * 8 + graph.weight_bytes
    assert option.sram_bytes == 2 * 32 * 32 * 8 + graph.weight_bytes


@pytest.mark.parametrize("weights_fit", [True, False])
def test_tensors_that_skip_layers_stay_in_one_band(network, device, weights_fit):
    net = network(16, 32, 32)
    first = net.conv(16)
    net.conv(16)
    second = net.conv(16)
    net.add([second, first])
    graph = net.graph()
    map_bytes, weights = 16 * 32 * 32, 16 * 16 * 9
    # While the third convolution runs: its input and output, and what skips it.
    room = 3 * map_bytes + (3 * weights if weights_fit else weights)
    option = build_table(graph, device(sram=room)).option(Mode.FUSED, 0, 4, (0,), (), 32)
    assert option.dram_bytes == 2 * map_bytes + 3 * weights
    assert option.sram_bytes == 3 * map_bytes + (3 * weights if weights_fit else weights / 8)
    with pytest.raises(ValueError, match="bytes of SRAM"):
        build_table(graph, device(sram=3 * map_bytes + weights // 8 - 1)).option(
            Mode.FUSED, 0, 4, (0,), (), 32
        )


def test_weights_that_pass_through_are_not_fetched_ahead(network, device):
    net = network(8, 16, 16)
    net.conv(8)
    net.pool_all()
    net.matmul(4096)
    graph = net.graph()
    bandwidth = 1e9
    weights = [layer.weight_bytes for layer in graph.layers]
    apart = build_table(graph, device(bandwidth, sram=2 * 8 * 256 + 8 * 4096 // 2))
    ahead = build_table(graph, device(bandwidth, sram=1 << 20))
    slow, fast = (table.option(Mode.FUSED, 0, 3, (0,)) for table in (apart, ahead))
    assert slow.dram_bytes == fast.dram_bytes == 8 * 256 + 4096 + sum(weights)
    cycles = [ahead.serial[block][0].compute_s for block in range(3)]
    moved = [8 * 256 + weights[0], 0, weights[2] + 4096]
    each = sum(max(c, m / bandwidth) for c, m in zip(cycles, moved, strict=True))
    assert slow.compute_s == pytest.approx(each + 1e-7)
    assert fast.compute_s == pytest.approx(sum(cycles) + 1e-7)
    assert fast.seconds(bandwidth) < slow.seconds(bandwidth)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_the_largest_working_set_is_that_of_a_walk_through_the_layers(data, network, device):
    net = network(8, 16, 16)
    for _ in range(data.draw(st.integers(1, 9))):
        made = [net.input, *((x.output, x.output_bytes, x.output_rows, x.index) for x in net.layers)]
        inputs = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
        net.conv(data.draw(st.sampled_from([4, 8])), 3, inputs=inputs)
    model = Model.of(net.graph(), device())
    size = len(net.layers)
    for first in range(size):
        for length in range(1, min(8, size - first) + 1):
            live = model.ranges.live[first, length]
            assert live == most_live_bytes(net.layers[first : first + length])
