"""A second level of memory that cores share, each an equal part."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import describe_hardware, load_hardware
from headway.core.device import Device
from headway.cost import build_table
from headway.cost.breakdown import layer_terms
from headway.models.graph import Graph


def shared(preset: str, size_kib: int, bandwidth_gb_s: float, **core: Any) -> Device:
    data = describe_hardware(preset).to_mapping()
    data["l2"] = {"size": f"{size_kib} KiB", "bandwidth": f"{bandwidth_gb_s} GB/s", "energy": "3 pJ/B"}
    data["cores"][0] |= core
    return load_hardware(data)


def convolution(network, channels: int = 64, height: int = 28) -> Graph:
    net = network(channels, height, height)
    net.conv(channels, 3)
    return net.graph()


def test_what_does_not_fit_the_core_passes_the_shared_level_and_not_dram(network) -> None:
    """256 channels of 28 x 28: the scratchpad reloads, all of it lies in the part of the shared level."""
    graph = convolution(network, 256)
    layer = graph.layers[0]
    once = layer.input_bytes + layer.weight_bytes + layer.output_bytes
    (terms,) = layer_terms(graph, shared("moca8", 8 * 1024, 128))[0]
    assert terms.dram_bytes == once
    assert terms.memory_bytes["l2"] > 2 * once
    assert terms.energy_pj_by["l2"] == pytest.approx(3 * terms.memory_bytes["l2"])
    assert tuple(terms.memory_bytes) == ("sram", "l2", "dram")


def test_a_narrow_port_holds_up_the_core_and_tables_agree(network) -> None:
    graph = convolution(network)
    for bandwidth in (128.0, 1.0):
        device = shared("moca8", 2048, bandwidth)
        (terms,) = layer_terms(graph, device)[0]
        table = build_table(graph, device)
        assert terms.latency_cycles == pytest.approx((table.serial_s[0][0] - device.dispatch_s) * 1e9)
        assert terms.energy_pj == pytest.approx(table.serial[0][0].energy_pj)
        per_cycle = bandwidth / 8  # an eighth, at 1 GHz
        assert terms.latency_cycles >= terms.memory_bytes["l2"] / per_cycle
    assert terms.stall_cycles > 0


def test_a_described_core_has_it_in_its_mapping(network) -> None:
    graph = convolution(network)
    (wide,) = layer_terms(graph, shared("stream-tpu-like", 8 * 1024, 256))[0]
    (narrow,) = layer_terms(graph, shared("stream-tpu-like", 8 * 1024, 4))[0]
    assert wide.memory_bytes["l2"] >= 2 * wide.dram_bytes * (1 - 1e-9)  # in and out
    assert narrow.latency_cycles >= narrow.memory_bytes["l2"] / 1  # a quarter of 4 bytes per cycle
    assert narrow.latency_cycles > wide.latency_cycles


@settings(deadline=None, max_examples=40)
@given(
    preset=st.sampled_from(["moca8", "stream-tpu-like"]),
    channels=st.sampled_from([3, 33, 128, 256]),
    height=st.sampled_from([7, 14, 28]),
    size_kib=st.integers(64, 4096),
    bandwidth=st.floats(1, 256),
    more=st.floats(1.01, 4),
    what=st.sampled_from(["size", "bandwidth"]),
)
def test_more_of_it_is_never_slower_nor_more_traffic(
    network, preset, channels, height, size_kib, bandwidth, more, what
) -> None:
    net = network(channels, height, height)
    for _ in range(3):
        net.conv(channels, 3)
    graph = net.graph()
    sizes = [size_kib, int(size_kib * more) + 1 if what == "size" else size_kib]
    widths = [bandwidth, bandwidth * more if what == "bandwidth" else bandwidth]
    less, better = (
        build_table(graph, shared(preset, size, width)) for size, width in zip(sizes, widths, strict=True)
    )
    for block in range(3):
        assert better.serial_s[block][0] <= less.serial_s[block][0] * (1 + 1e-9)
        assert better.serial[block][0].dram_bytes <= less.serial[block][0].dram_bytes * (1 + 1e-9)
