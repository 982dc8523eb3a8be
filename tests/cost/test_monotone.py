"""More of anything never costs more on cores whose costs come from mappings; nothing is lost or negative."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headway.config.hardware import describe_hardware, load_hardware
from headway.config.quantities import SIZE, Quantity
from headway.core.block import Mode
from headway.core.device import Core, Device
from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, Hierarchy, main_memory
from headway.cost import Nest, build_table, map_layer, mapping_front
from headway.cost.breakdown import layer_terms
from headway.cost.mapped import MappedLayer
from headway.cost.nest import touched
from headway.cost.table import Table
from headway.models.graph import Graph

MAPPED = [
    "ascend",
    "edge-tpu",
    "eyeriss",
    "gemmini",
    "meta-prototype",
    "nvdla",
    "shidiannao",
    "simba",
    "stream-tpu-like",
    "tesla-npu",
    "zigzag-tpu-like",
]


@st.composite
def graphs(draw, make):
    """A chain of convolutions of any sort."""
    height = draw(st.sampled_from([1, 7, 14, 17, 28]))
    net = make(draw(st.sampled_from([1, 3, 16, 33])), height, height)
    for _ in range(draw(st.integers(2, 4))):
        kernel, stride = draw(st.sampled_from([(1, 1), (3, 1), (3, 2), (5, 1)]))
        net.conv(draw(st.sampled_from([1, 8, 33, 64])), kernel, stride, [net.last()])
    return net.graph()


Description = dict[str, Any]


def inside(device: Device) -> Hierarchy:
    hierarchy = device.cores[0].hierarchy
    assert hierarchy is not None
    return hierarchy


def less_of(draw, name: str) -> Description:
    """A published core with some of its memories made smaller."""
    data = describe_hardware(name).to_mapping()
    for memory in data["cores"][0]["memories"]:
        if memory.get("shared_over") is None:  # of the whole array: there may be less of it
            memory["size"] = f"{round(bytes_of(memory) * draw(st.sampled_from([1, 1, 0.3, 0.05])))} B"
    return data


def more_of(draw, name: str) -> tuple[Device, Device]:
    """A published core with some of its memories made smaller, and the same with more of something."""
    data = less_of(draw, name)
    before = load_hardware(data)
    add_some(draw, data)
    return before, load_hardware(data)


def add_some(draw, data: Description) -> None:
    """More of one thing that the first core of a device, or its DRAM, has."""
    before, core, times = load_hardware(data), data["cores"][0], draw(st.floats(1.01, 3))
    match draw(st.sampled_from(["bandwidth", "clock", "memory", "memory", "port", "units", "units"])):
        case "bandwidth":
            data["dram"]["bandwidth"] = f"{before.dram_bandwidth_bytes_s * times!r} B/s"
        case "clock":
            core["clock"] = f"{before.cores[0].clock_hz * times!r} Hz"
        case "memory":
            memory = draw(st.sampled_from(core["memories"]))
            more = draw(st.sampled_from([1, int(bytes_of(memory) * (times - 1))]))
            memory["size"] = f"{bytes_of(memory) + max(1, more)} B"
        case "port":
            memory = draw(st.sampled_from(core["memories"]))
            for key in ("width_bits", "read_bits", "write_bits"):
                if key in memory:
                    memory["grain_bits"] = memory.get("grain_bits", memory[key])
                    memory[key] += draw(st.integers(1, memory[key]))
            for port in memory["ports"] if isinstance(memory.get("ports"), list) else []:
                port["bits"] += draw(st.integers(1, port["bits"]))
        case "units":
            axes = core["unrolling"]
            loops = draw(st.sampled_from(axes)) if isinstance(axes, list) else axes
            loop = draw(st.sampled_from(sorted(loops)))
            loops[loop] += draw(st.integers(1, loops[loop]))


def bytes_of(memory: Description) -> int:
    return round(Quantity(SIZE, most="1 TiB").parse(memory["size"]))


def costs(table: Table) -> dict[tuple[object, ...], tuple[float, float]]:
    """Seconds and DRAM bytes of every layer and of the best run of every stack that can be fused."""
    found: dict[tuple[object, ...], tuple[float, float]] = {}
    for block in range(table.blocks):
        option = table.serial[block][0]
        found["serial", block] = (table.serial_s[block][0], option.dram_bytes)
    for option in table.stacks(0):
        found["stack", option.first, option.end] = (
            option.fixed_s + max(option.compute_s, option.dram_bytes / table_bandwidth(table)),
            option.dram_bytes,
        )
    return found


def table_bandwidth(table: Table) -> float:
    return table._model.device.dram_bandwidth_bytes_s


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_more_is_never_slower_nor_more_traffic(data, network) -> None:
    graph = data.draw(graphs(network))
    device, better = more_of(data.draw, data.draw(st.sampled_from(MAPPED)))
    before, after = costs(build_table(graph, device)), costs(build_table(graph, better))
    for key, (seconds, dram_bytes) in before.items():
        if key in after:
            assert after[key][0] <= seconds * (1 + 1e-9), key
            assert after[key][1] <= dram_bytes * (1 + 1e-9), key
    assert {key for key in before if key[0] == "serial"} <= set(after)


@st.composite
def layers(draw):
    """A loop nest of any sort."""
    size = draw(st.sampled_from([1, 7, 9, 14, 17, 28]))
    channels, outputs = draw(st.sampled_from([3, 11, 33, 64, 100])), draw(st.sampled_from([8, 16, 37, 64]))
    square = {"OY": size, "OX": size}
    window = dict.fromkeys(("FY", "FX"), draw(st.sampled_from([1, 3, 5])))
    stride, dilation = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]))
    sizes: dict[str, int] = draw(
        st.sampled_from(
            [
                {"K": outputs, "C": channels, **square, **window},
                {"G": channels, **square, **window},
                {"G": 4, "K": outputs, "C": 8, **square, **window},
                {"B": 3, "K": outputs, "C": channels, **square, **window},
                {"K": 4 * outputs, "C": channels, "OY": 17},
                {"K": 10 * outputs, "C": 8 * channels},
                {"G": 12, "K": outputs, "C": channels, "OY": 17},
            ]
        )
    )
    if "OX" not in sizes:
        return Nest.of(sizes)
    own = draw(st.sampled_from([None, size * stride]))
    return Nest.of(sizes, stride=stride, dilation=dilation, input_rows=own, input_columns=own)


ODD_MEMORIES = [
    {"inputs": ["I"], "sums": ["O"], "shared": ["I", "W", "O"]},
    {"weights": ["W"], "maps": ["I", "O"]},
    {"both": ["I", "W"], "all": ["I", "W", "O"]},
    {"all": ["I", "W", "O"]},
]


@st.composite
def odd_cores(draw) -> Description:
    """A small core of odd sizes, in which hardly anything fits."""
    units = draw(
        st.sampled_from(
            [
                {"K": 5, "C": 3, "OX": 2},
                {"K": 3, "OY": 5},
                {"C": 7, "FX": 2},
                {"G": 2, "K": 3},
                {"K": 11, "C": 13},
            ]
        )
    )
    memories = [
        {
            "name": name,
            "size": f"{draw(st.sampled_from([64, 200, 1000, 5000, 60000]))} B",
            "operands": operands,
        }
        | {
            "width_bits": draw(st.sampled_from([16, 24, 64])),
            "read_energy": "0.1 pJ",
            "write_energy": "0.1 pJ",
        }
        for name, operands in draw(st.sampled_from(ODD_MEMORIES)).items()
    ]
    cores = [{"name": "core", "clock": "1 GHz", "unrolling": units, "memories": memories}]
    dram = {"bandwidth": f"{draw(st.sampled_from([1, 8, 64]))} GB/s", "energy": "60 pJ/B"}
    return {"name": "drawn", "cores": cores, "dram": dram}


def fastest(nest: Nest, device: Device) -> tuple[float, float]:
    """Seconds and DRAM bytes of the fastest mapping."""
    core, hierarchy = device.cores[0], inside(device)
    bits = device.dram_bandwidth_bytes_s / core.clock_hz * 8
    mapped = map_layer(nest, hierarchy.under(main_memory(bits, 1.0, 1.0, len(hierarchy.axes))))
    return mapped.latency_cycles / core.clock_hz, sum(mapped.words_of("dram").values()) * bits / 8


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_the_fastest_mapping_is_never_slower_with_more(data) -> None:
    """One step or several, without any allowance; more traffic only where it is faster."""
    nest = data.draw(layers())
    odd = data.draw(st.booleans())
    description = data.draw(odd_cores()) if odd else less_of(data.draw, data.draw(st.sampled_from(MAPPED)))
    less = load_hardware(description)
    for _ in range(data.draw(st.sampled_from([1, 1, 1, 2, 3]))):
        add_some(data.draw, description)
    try:
        before = fastest(nest, less)
    except HeadwayError:
        assume(False)
    after = fastest(nest, load_hardware(description))
    assert after[0] <= before[0] * (1 + 1e-9)
    if after[0] >= before[0] * (1 - 1e-9):
        assert after[1] <= before[1] * (1 + 1e-9)


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_the_terms_of_a_layer_are_never_slower_with_more(data, network) -> None:
    """What `headway cost` shows: biases and vector lanes beside the nest included."""
    height = data.draw(st.sampled_from([1, 7, 14, 28]))
    net = network(data.draw(st.sampled_from([3, 16, 33, 64])), height, height)
    kernel, stride = data.draw(st.sampled_from([(1, 1), (3, 1), (3, 2), (1, 2)]))
    net.conv(data.draw(st.sampled_from([8, 33, 64, 100])), kernel, stride)
    graph = net.graph()
    less, better = more_of(data.draw, data.draw(st.sampled_from(MAPPED)))
    (before,), (after,) = layer_terms(graph, less)[0], layer_terms(graph, better)[0]
    clocks = better.cores[0].clock_hz / less.cores[0].clock_hz
    assert after.latency_cycles / clocks <= before.latency_cycles * (1 + 1e-9)
    if after.latency_cycles / clocks >= before.latency_cycles * (1 - 1e-9):
        assert after.dram_bytes <= before.dram_bytes * (1 + 1e-9)


@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_no_mapping_that_fits_is_faster_than_the_fastest(data) -> None:
    """Random orders, memories filled as `allocated` does it, on random parts of the array."""
    nest = data.draw(layers())
    device = load_hardware(data.draw(odd_cores()))
    hierarchy = inside(device).under(main_memory(64, 1.0, 1.0, len(inside(device).axes)))
    try:
        front = mapping_front(nest, hierarchy)
    except HeadwayError:
        assume(False)
    chosen = map_layer(nest, hierarchy)
    assert chosen.latency_cycles <= front[0].latency_cycles * (1 + 1e-9)
    for memory, bits in held_bits(chosen, nest, hierarchy).items():
        assert bits <= next(each.bits for each in hierarchy.memories if each.name == memory) * (1 + 1e-9)


def held_bits(mapped: MappedLayer, nest: Nest, hierarchy: Hierarchy) -> dict[str, float]:
    """Bits in memories of the whole array: twice what is used, but for all of an operand or one below's."""
    found: dict[str, float] = {}
    for position, memory in enumerate(hierarchy.memories[:-1]):
        for operand in memory.operands:
            level, by_level = hierarchy.levels[operand].index(position), mapped.loops[operand]
            elements, everything = (
                held(operand, [loop for each in levels for loop in each], mapped, nest)
                for levels in (by_level[: level + 1], by_level)
            )
            above = [name for each in by_level[level:] for name, _ in each]
            bits = hierarchy.partial_bits if operand == "O" and {"C", "FY", "FX"} & set(above) else 8
            times = 1 if elements >= everything or not by_level[level] else 2
            found[memory.name] = found.get(memory.name, 0.0) + elements * times * bits
    return found


def held(operand: str, loops: list[tuple[str, int]], mapped: MappedLayer, nest: Nest) -> float:
    """Elements of an operand that these loops, and what runs side by side, touch."""
    extent = {name: mapped.unrolled.get(name, 1.0) for name in LOOP_DIMS}
    for name, count in loops:
        extent[name] *= count
    if operand == "I":
        high, wide = (
            min(
                most or 1 << 40,
                float(touched(*map(np.asarray, (extent[out], extent[tap], stride, dilation)), whole=False)),
            )
            for out, tap, stride, dilation, most in (
                ("OY", "FY", nest.stride_y, nest.dilation_y, nest.input_rows),
                ("OX", "FX", nest.stride_x, nest.dilation_x, nest.input_columns),
            )
        )
        return extent["B"] * extent["G"] * extent["C"] * high * wide
    return prod(
        extent[name] for name in {"W": ("G", "K", "C", "FY", "FX"), "O": ("B", "G", "K", "OY", "OX")}[operand]
    )


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_work_is_conserved_and_energy_positive(data, network) -> None:
    graph: Graph = data.draw(graphs(network))
    device = load_hardware(data.draw(st.sampled_from(MAPPED)))
    table = build_table(graph, device)
    core: Core = device.cores[0]
    for block, layer in enumerate(graph.layers):
        option = table.serial[block][0]
        assert option.macs == layer.macs
        assert option.energy_pj >= layer.macs * core.mac_energy_pj
        seconds = table.serial_s[block][0]
        assert seconds >= option.dram_bytes / device.dram_bandwidth_bytes_s * (1 - 1e-12)
        assert seconds >= layer.macs / inside(device).units / core.clock_hz * (1 - 1e-12)
    for option in table.stacks(0):
        assert option.mode is Mode.FUSED
        assert option.macs >= sum(layer.macs for layer in graph.layers[option.first : option.end])
        assert option.energy_pj > 0


@pytest.mark.parametrize("name", MAPPED)
def test_four_times_the_rows_take_up_to_four_times_as_long(name: str, network) -> None:
    def seconds(rows: int) -> float:
        net = network(64, rows, 1)
        net.matmul(96)
        return build_table(net.graph(), load_hardware(name)).serial_s[0][0]

    assert seconds(16) <= seconds(64) <= 4 * seconds(16)
