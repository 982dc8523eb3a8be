"""One layer over several cores: nothing is counted twice, and more of anything never makes it slower."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_fusion_monotone import graphs, improvements

from headway.core.block import Mode
from headway.cost import build_table

CORES = ((0, 0), (0, 1), (1, 1), (0, 0, 1), (1, 0, 1, 0))


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("channels", [1, 64])
def test_what_a_stride_leaves_out_is_neither_read_nor_passed_on(network, device, cores, channels):
    net = network(32, 14, 14)
    net.conv(channels, 1, stride=2)
    option = build_table(net.graph(), device()).option(Mode.SPLIT, 0, 1, cores)
    touched, weights, output = 32 * 7 * 7, 32 * channels, channels * 7 * 7
    assert option.dram_bytes == pytest.approx(touched + weights + output)
    assert option.link_bytes in [(len(cores) - 1) * touched, (len(cores) - 1) * weights]


def splits(table, bandwidth):
    """(seconds, DRAM bytes, pJ) of every layer over several cores."""
    options = {
        (block, cores): table.option(Mode.SPLIT, block, block + 1, cores)
        for block in range(table.blocks)
        for cores in CORES
    }
    return {key: (each.seconds(bandwidth), each.dram_bytes, each.energy_pj) for key, each in options.items()}


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_more_is_never_slower_and_moves_more_only_to_be_faster(data, network, device):
    graph = data.draw(graphs(network))
    machine = device(
        bandwidth=data.draw(st.sampled_from([0.5e9, 4e9, 64e9])),
        sram=data.draw(st.integers(4_000, 400_000)),
        double_buffered=data.draw(st.booleans()),
    )
    better = data.draw(improvements())(machine)
    before = splits(build_table(graph, machine), machine.dram_bandwidth_bytes_s)
    after = splits(build_table(graph, better), better.dram_bandwidth_bytes_s)
    for key, (seconds, dram_bytes, energy_pj) in before.items():
        layer = graph.layers[key[0]]
        assert dram_bytes >= layer.weight_bytes + layer.output_bytes
        assert energy_pj > 0
        assert after[key][0] <= seconds * (1 + 1e-9), key
        if after[key][1] > dram_bytes * (1 + 1e-9):
            assert after[key][0] < seconds, key


def test_unequal_cores_take_unequal_shares(network, device):
    """The better of any fixed shares, so that a slow core never holds up a fast one."""
    net = network(64, 28, 28)
    net.conv(64, 3)
    machine = device(bandwidth=1e12)
    table = build_table(net.graph(), machine)
    alone = [table.serial[0][kind].compute_s for kind in (0, 1)]
    both = table.option(Mode.SPLIT, 0, 1, (0, 1)).compute_s
    ideal = 1 / (1 / alone[0] + 1 / alone[1])
    assert ideal <= both < 1.25 * ideal
