"""The terms that a layer's cost consists of."""

from __future__ import annotations

import numpy as np
import pytest

from headway.config import describe_hardware, load_hardware
from headway.core.device import Dataflow
from headway.core.errors import HeadwayError
from headway.core.hierarchy import main_memory
from headway.cost.breakdown import DRAM, MAC, LayerTerms, layer_terms, memory_names
from headway.cost.dataflow import systolic_cycles
from headway.cost.nest import Nest
from headway.cost.search import map_layer
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge

PRESETS = ("zigzag-tpu-like", "stream-tpu-like")


@pytest.fixture(scope="module")
def mobile():
    """A network with depthwise layers, residual sums and pooling, small maps."""
    graph = load_model("mobilenet_v2", dims={"image_size": 64})
    return merge(at_width(graph, 1))


def all_terms(terms):
    return [each for row in terms for each in row]


@pytest.mark.parametrize("double_buffered", [True, False])
@pytest.mark.parametrize("bandwidth", [1e9, 64e9])
def test_terms_of_systolic_cores_add_up_to_what_tables_have(device, residual, double_buffered, bandwidth):
    graph, machine = residual(), device(bandwidth=bandwidth, double_buffered=double_buffered)
    table = build_table(graph, machine)
    for layer, row in enumerate(layer_terms(graph, machine)):
        for kind, terms in enumerate(row):
            serial = table.serial[layer][kind]
            clock = machine.exemplars[kind].clock_hz
            in_table = (table.serial_s[layer][kind] - machine.dispatch_s) * clock
            assert terms.latency_cycles == pytest.approx(in_table)
            assert terms.schedule_cycles == pytest.approx(in_table)
            assert terms.dram_bytes == serial.dram_bytes
            assert terms.energy_pj == pytest.approx(serial.energy_pj)
            assert min(terms.compute_cycles, terms.onload_cycles) > 0
            assert min(terms.stall_cycles, terms.offload_cycles) >= 0


def test_compute_is_the_array_alone_and_what_memory_adds_is_stall(device, chain):
    slow, fast = (layer_terms(chain(), device(bandwidth=b))[0][0] for b in (1e8, 1e12))
    array = systolic_cycles(56 * 56, 64, 576, 32, 32, Dataflow.OUTPUT_STATIONARY)
    assert slow.compute_cycles == fast.compute_cycles == array
    assert fast.stall_cycles == 0
    assert slow.stall_cycles > 0
    assert slow.latency_cycles == pytest.approx(slow.dram_bytes / 0.1)  # bytes over 0.1 byte per cycle


def test_without_double_buffers_outputs_are_stored_after_the_computation(device, chain):
    terms = layer_terms(chain(), device(double_buffered=False, bandwidth=8e9))[1][0]
    assert terms.offload_cycles == pytest.approx(56 * 56 * 64 / 8)
    assert terms.onload_cycles == pytest.approx((terms.dram_bytes - 56 * 56 * 64) / 8)
    assert terms.stall_cycles == 0


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("overlap", ["physical", "zigzag"])
def test_no_layer_beats_its_array_or_its_bytes(mobile, preset, overlap):
    machine = load_hardware(preset)
    core = machine.cores[0]
    for layer, (terms, *_) in zip(mobile.layers, layer_terms(mobile, machine, overlap), strict=True):
        assert terms.compute_cycles >= layer.macs / (core.rows * core.columns)
        assert min(terms.stall_cycles, terms.onload_cycles, terms.offload_cycles) >= 0
        if overlap == "physical":
            over_port = terms.dram_bytes / (machine.dram_bandwidth_bytes_s / core.clock_hz)
            assert terms.latency_cycles >= over_port * (1 - 1e-9)


def test_a_described_core_has_the_terms_of_its_mapping():
    machine = load_hardware("zigzag-tpu-like")
    core = machine.cores[0]
    graph = merge(at_width(load_model("resnet18"), 1))
    layer = next(layer for layer in graph.layers if layer.name == "layer1.0.conv1")
    assert core.hierarchy is not None
    memories = core.hierarchy.under(main_memory(64, 87.5 / 8, 93.75 / 8, len(core.hierarchy.axes)))
    nest = Nest.of({"K": 64, "C": 64, "OY": 56, "OX": 56, "FY": 3, "FX": 3}, input_rows=56, input_columns=56)
    for overlap in ("physical", "zigzag"):
        mapped = map_layer(nest, memories, overlap=overlap)
        terms = layer_terms(graph, machine, overlap)[layer.index][0]
        for term in ("stall", "onload", "offload", "latency"):
            assert getattr(terms, f"{term}_cycles") == getattr(mapped, f"{term}_cycles")
        assert terms.dram_bytes == sum(mapped.words_of("dram").values()) * 8 + 64  # ports of 8 bytes; biases
        words = mapped.words_of("dram")
        read_pj, written_pj = 700 * (words["I"] + words["W"] + 8), 750 * words["O"]
        assert terms.energy_pj_by[DRAM] == pytest.approx(read_pj + written_pj)


def test_what_followers_read_beside_is_counted():
    """A residual sum folded into a convolution reads a map more, over the port and in bytes."""
    machine = load_hardware("zigzag-tpu-like")
    graph = merge(at_width(load_model("resnet18"), 1))
    terms = layer_terms(graph, machine)
    by_name = {layer.name: terms[layer.index][0] for layer in graph.layers}
    plain, summed = by_name["layer1.0.conv1"], by_name["layer1.0.conv2"]
    assert summed.dram_bytes - plain.dram_bytes == 56 * 56 * 64
    held_up = by_name["layer4.1.conv2"]
    assert held_up.stall_cycles > by_name["layer4.1.conv1"].stall_cycles > 0
    assert held_up.latency_cycles == pytest.approx(held_up.dram_bytes / 8)


def test_overlap_as_the_peer_counts_it_waits_for_the_first_tile():
    graph = merge(at_width(load_model("resnet18"), 1))
    machine = load_hardware("zigzag-tpu-like")
    own, copied = (layer_terms(graph, machine, overlap)[2][0] for overlap in ("physical", "zigzag"))
    assert copied.compute_cycles == own.compute_cycles
    assert copied.onload_cycles > 10 * own.onload_cycles


@pytest.mark.parametrize("preset", ["zigzag-tpu-like", "stream-hetero4"])
def test_memories_and_energies_have_the_names_of_the_core(mobile, preset):
    machine = load_hardware(preset)
    for row in layer_terms(mobile, machine):
        for core, terms in zip(machine.exemplars, row, strict=True):
            assert tuple(terms.memory_bytes) == memory_names(core)
            assert tuple(terms.energy_pj_by) == (MAC, *memory_names(core))
            assert list(terms.memory_bytes)[-1] == DRAM


def test_recurrent_layers_load_their_weights_once_on_described_cores():
    """As in tables: what fits stays for all steps."""
    graph = merge(at_width(load_model("rnnt_encoder"), 1))
    machine = load_hardware("stream-tpu-like")
    table = build_table(graph, machine)
    recurrent = [layer.index for layer in graph.layers if layer.kind.value == "recurrent"]
    assert recurrent
    for index in recurrent:
        terms = layer_terms(graph, machine)[index][0]
        assert terms.dram_bytes == table.serial[index][0].dram_bytes
        assert terms.energy_pj == pytest.approx(table.serial[index][0].energy_pj, rel=0.05)


def test_nothing_is_free(mobile):
    for terms in all_terms(layer_terms(mobile, load_hardware("zigzag-tpu-like"))):
        assert isinstance(terms, LayerTerms)
        assert terms.latency_cycles > 0
        assert terms.energy_pj > 0
        assert np.isfinite(terms.latency_cycles)


def test_a_memory_cannot_be_called_what_something_else_is(mobile):
    described = describe_hardware("zigzag-tpu-like").to_mapping()
    described["cores"][0]["memories"][-1]["name"] = "dram"
    with pytest.raises(HeadwayError, match="core like: found a memory named 'dram'"):
        layer_terms(mobile, load_hardware(described))


def test_lanes_have_no_terms(chain):
    with pytest.raises(HeadwayError, match="has lanes"):
        layer_terms(chain(), load_hardware("cpu-lanes"))


@pytest.mark.parametrize("preset", PRESETS)
def test_tables_have_the_time_of_mappings(mobile, preset):
    """The two are found apart; elementary operations, strides and the DRAM port count alike in both."""
    machine = load_hardware(preset)
    for network in (mobile, merge(at_width(load_model("resnet18"), 1))):
        for layer, (terms,) in zip(network.layers, layer_terms(network, machine), strict=True):
            assert terms.schedule_cycles == pytest.approx(terms.latency_cycles, rel=0.2, abs=500), layer.name


def test_numbers_taken_apart_in_the_documentation():
    """docs/costs.md, worked by hand from the formulas there."""
    graph = merge(at_width(load_model("resnet50"), 1))
    first = layer_terms(graph, load_hardware("stream-hetero4"))[0][0]
    assert (first.compute_cycles, first.onload_cycles, first.stall_cycles) == (126_379, 716, 0)
    assert first.memory_bytes == {"sram": 11_885_504, "dram": 962_816}
    macs = 118_013_952 + 2 * 802_816
    assert first.energy_pj == pytest.approx(macs * 0.04 + 11_885_504 * 1.625 + 962_816 * 60)
    assert first.mapping is None

    graph = merge(at_width(load_model("resnet18"), 1))
    layer = next(layer for layer in graph.layers if layer.name == "layer1.0.conv1")
    described = layer_terms(graph, load_hardware("zigzag-tpu-like"))[layer.index][0]
    assert (described.compute_cycles, described.stall_cycles) == (112_896, 0)
    assert (described.onload_cycles, described.offload_cycles) == (128, 9)
    assert described.memory_bytes == {
        "rf_weights": 36_864 + 1024 * 112_896,
        "rf_sums": 1024 * 112_896 * 2 * (18 + 17 + 1) // 18,
        "sram": 32 * 112_896 + 3 * 200_704 + 64,
        "dram": 438_336,
    }
    assert described.energy_pj_by[DRAM] == pytest.approx(237_632 * 87.5 + 200_704 * 93.75)


@pytest.mark.parametrize("hardware", ["zigzag-tpu-like", "gemmini"])
def test_terms_follow_from_the_mapping_that_is_shown(hardware):
    machine = load_hardware(hardware)
    graph = merge(at_width(load_model("resnet18"), 1))
    layer = next(layer for layer in graph.layers if layer.name == "layer1.0.conv1")
    terms = layer_terms(graph, machine)[layer.index][0]
    inside = machine.cores[0].hierarchy
    assert inside is not None
    assert terms.mapping is not None
    bits = machine.dram_bandwidth_bytes_s * 8 / machine.cores[0].clock_hz
    memories = inside.under(main_memory(bits, 1, 1, len(inside.axes)))
    nest = Nest.of({"K": 64, "C": 64, "OY": 56, "OX": 56, "FY": 3, "FX": 3}, input_rows=56, input_columns=56)
    again = map_layer(nest, memories, terms.mapping.loops)
    assert again.latency_cycles == terms.latency_cycles
    assert again.unrolled == terms.mapping.unrolled
