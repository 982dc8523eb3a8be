"""More SRAM, bandwidth or clock never makes a fused run slower, its traffic larger, or impossible."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from test_monotone import MAPPED, more_of

from headway.core.block import Mode
from headway.cost import build_table

KINDS = {Mode.FUSED: ((0,), (1,)), Mode.PIPELINE: ((0, 1), (1, 0), (0, 0), (1, 0, 1))}
ALONE = {Mode.FUSED: ((0,),)}


@st.composite
def graphs(draw, make):
    """Convolutions with residuals, side branches, barriers, and weights from few to many."""
    height = draw(st.sampled_from([7, 16, 28, 40]))
    net = make(draw(st.sampled_from([4, 16, 64])), height, height)
    for _ in range(draw(st.integers(2, 5))):
        kernel, stride = draw(st.sampled_from([(1, 1), (3, 1), (3, 1), (3, 2), (5, 1)]))
        made = [net.input, *((x.output, x.output_bytes, x.output_rows, x.index) for x in net.layers)]
        source = made[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(made))
        net.conv(
            draw(st.sampled_from([4, 32, 128])),
            kernel,
            stride,
            [source],
            row_wise=draw(st.integers(0, 7)) > 0,
        )
        alike = [x for x in made if x[1:3] == net.last()[1:3]]
        if alike and draw(st.booleans()):
            net.add([net.last(), draw(st.sampled_from(alike))])
    return net.graph()


@st.composite
def improvements(draw):
    """A change of a device by any factor, and its name."""
    factor = draw(st.floats(1.0, 3.0))
    which = draw(st.sampled_from(["sram", "bandwidth", "clock", "link"]))

    def change(device):
        cores = device.cores
        if which == "sram":
            cores = tuple(replace(core, sram_bytes=int(core.sram_bytes * factor)) for core in cores)
        if which == "clock":
            cores = tuple(replace(core, clock_hz=core.clock_hz * factor) for core in cores)
        bandwidth = device.dram_bandwidth_bytes_s * (factor if which == "bandwidth" else 1)
        link = replace(device.link, bandwidth_bytes_s=device.link.bandwidth_bytes_s * factor)
        return replace(
            device,
            cores=cores,
            dram_bandwidth_bytes_s=bandwidth,
            link=link if which == "link" else device.link,
        )

    return change


def runs(graph, device, modes=KINDS):
    """(seconds, DRAM bytes) of every fused stack and pipeline that fits."""
    table = build_table(graph, device)
    found = {}
    for first in range(table.blocks):
        for end in range(first + 2, min(table.blocks, first + 8) + 1):
            for mode, choices in modes.items():
                for kinds in choices:
                    try:
                        option = table.option(mode, first, end, kinds)
                    except ValueError:
                        continue
                    seconds = option.seconds(device.dram_bandwidth_bytes_s)
                    found[mode, first, end, kinds] = (seconds, option.dram_bytes)
    return found


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_more_is_never_slower_nor_more_traffic_nor_impossible(data, network, device):
    graph = data.draw(graphs(network))
    machine = device(
        bandwidth=data.draw(st.sampled_from([0.5e9, 4e9, 64e9])),
        sram=data.draw(st.integers(4_000, 400_000)),
        double_buffered=data.draw(st.booleans()),
    )
    before, after = runs(graph, machine), runs(graph, data.draw(improvements())(machine))
    for key, (seconds, dram_bytes) in before.items():
        assert key in after
        assert after[key][0] <= seconds * (1 + 1e-9), key
        assert after[key][1] <= dram_bytes, key


def no_more_cores(ours, theirs):
    return all(ours.count(kind) <= theirs.count(kind) for kind in set(ours))


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_a_better_machine_offers_is_no_slower(data, network, device):
    """Of the pipelines that a table offers by itself: one as good with no more cores of any type."""
    graph = data.draw(graphs(network))
    machine = device(
        bandwidth=data.draw(st.sampled_from([0.5e9, 4e9, 64e9])),
        sram=data.draw(st.integers(4_000, 400_000)),
        double_buffered=data.draw(st.booleans()),
    )
    better = data.draw(improvements())(machine)
    before, after = build_table(graph, machine), build_table(graph, better)
    for first in range(before.blocks):
        for option in before.pipelines(first):
            seconds = option.seconds(machine.dram_bandwidth_bytes_s)
            assert any(
                other.end == option.end
                and no_more_cores(other.kinds, option.kinds)
                and other.seconds(better.dram_bandwidth_bytes_s) <= seconds * (1 + 1e-9)
                and other.dram_bytes <= option.dram_bytes
                for other in after.pipelines(first)
            ), option
            asked = before.option(Mode.PIPELINE, first, option.end, option.kinds)
            assert seconds <= asked.seconds(machine.dram_bandwidth_bytes_s) * (1 + 1e-9)


@settings(deadline=None, max_examples=20)
@given(data=st.data())
def test_neither_are_more_units_or_memory_in_a_described_core(data, network):
    graph = data.draw(graphs(network))
    machine, better = more_of(data.draw, data.draw(st.sampled_from(MAPPED)))
    before, after = runs(graph, machine, ALONE), runs(graph, better, ALONE)
    for key, (seconds, dram_bytes) in before.items():
        assert key in after
        assert after[key][0] <= seconds * (1 + 1e-9), key
        assert after[key][1] <= dram_bytes, key


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_without_a_memory_limit_no_stack_is_faster_on_one_core(data, network, device):
    graph = data.draw(graphs(network))
    machine = device(bandwidth=math.inf, sram=data.draw(st.integers(4_000, 400_000)))
    table = build_table(graph, machine)
    for (mode, first, end, kinds), (seconds, _) in runs(graph, machine).items():
        if mode is Mode.FUSED:
            serial = table.option(Mode.SERIAL, first, end, kinds).seconds(math.inf)
            assert seconds >= serial * (1 - 1e-9)


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_work_and_bytes_are_conserved_in_any_band_height(data, network, device):
    graph = data.draw(graphs(network))
    machine = device(sram=data.draw(st.integers(4_000, 2_000_000)))
    table = build_table(graph, machine)
    rows = data.draw(st.integers(1, 40))
    for first in range(table.blocks):
        for end in range(first + 2, table.blocks + 1):
            layers = graph.layers[first:end]
            macs = sum(layer.macs for layer in layers)
            inside = {layer.output for layer in layers}
            read = {o.tensor: o.bytes for x in layers for o in x.operands if o.tensor not in inside}
            later = {o.tensor for layer in graph.layers[end:] for o in layer.operands}
            written = sum(x.output_bytes for x in layers if x.is_output or x.output in later)
            least = sum(x.weight_bytes for x in layers) + sum(read.values()) + written
            for mode, kinds in ((Mode.FUSED, (0,)), (Mode.PIPELINE, (0, 1))):
                try:
                    option = table.option(mode, first, end, kinds, (), rows)
                except ValueError:
                    continue
                assert macs <= option.macs <= macs * 1.1 + 1
                assert option.macs == macs or mode is Mode.FUSED
                assert option.dram_bytes >= least - 1e-6
                assert (
                    option.dram_bytes < sum(x.weight_bytes + x.input_bytes + x.output_bytes for x in layers)
                    or option.dram_bytes == least
                )
                assert option.sram_bytes <= machine.exemplars[kinds[0]].sram_bytes
