"""Single-core fusion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.block import Mode
from headway.core.device import Dataflow, SharedMemory
from headway.cost import build_table, input_buffer_rows, systolic_cycles
from headway.models.graph import Operand


def test_input_buffers_of_eight_layers():
    # accelerators.md section 4: eight 3x3 layers at 56 x 56 x 64, bands of 4 rows.
    row = 56 * 64
    layers = ([3] * 8, [1] * 8, [56] * 8)
    assert sum(input_buffer_rows(*layers, band=4, overlap="recomputed")) * row == 372_736
    assert sum(input_buffer_rows(*layers, band=4)) * row == 172_032


def test_input_buffers_with_strides_and_clipping():
    # From the last: 2 rows of a 3x3 stride 2 layer take 2 * 2 + 1 = 5 rows, made by 4 rows of a 1x1 layer.
    assert input_buffer_rows([1, 3], [1, 2], [112, 112], band=2) == (4, 5)
    assert input_buffer_rows([1, 3], [1, 2], [112, 112], band=2, overlap="recomputed") == (5, 5)
    assert input_buffer_rows([3, 3], [1, 1], [6, 6], band=6) == (6, 6)


def test_time_traffic_and_memory_of_a_chain(chain, device):
    described = device(bandwidth=64e9)
    table = build_table(chain(4), described)
    option = table.option(Mode.FUSED, 0, 4, (0,), band_rows=4)
    row, weights = 56 * 64, 36_864
    steps = systolic_cycles(4 * 56, 64, 576, 32, 32, Dataflow.OUTPUT_STATIONARY) + 1
    assert option.steps == 14
    assert option.dram_bytes == 2 * 56 * row + 4 * weights
    assert option.compute_s == pytest.approx(4 * (14 * steps - 1) * 1e-9 + 14 * 1e-7)
    assert option.fixed_s == pytest.approx((weights + 6 * row) / 64e9 + 1e-6)
    # Weights, 6 buffered rows per layer, 4 rows of output, the next 4 rows of input.
    assert option.sram_bytes == 4 * weights + 4 * 6 * row + 4 * row + 4 * row
    assert option.spill_bytes == 3 * 2 * row  # the lines between layers; the first layer's can be read again
    assert option.macs == 4 * 115_605_504
    assert option.serial_dram_bytes == table.option(Mode.SERIAL, 0, 4, (0,)).dram_bytes
    assert [segment.steps for segment in table.segments(option)] == [14]


def test_halo_is_recomputed_where_lines_do_not_fit(chain, device):
    # One byte less than the cached halo needs in one band of 28 rows, and far more than recomputing needs.
    roomy = build_table(chain(4), device())
    cached = roomy.option(Mode.FUSED, 0, 4, (0,), band_rows=28)
    tight = build_table(chain(4), device(sram=int(cached.sram_bytes) - 1))
    option = tight.option(Mode.FUSED, 0, 4, (0,), band_rows=28)
    # Around the cut between the two bands, layers 0 to 2 make 3, 2 and 1 rows twice on either side.
    extra = 2 * (3 + 2 + 1) / 56 * 115_605_504
    assert option.macs == pytest.approx(4 * 115_605_504 + extra)
    assert option.spill_bytes == 0.0
    assert option.sram_bytes < cached.sram_bytes
    assert option.compute_s > cached.compute_s
    assert option.dram_bytes == cached.dram_bytes


def test_recomputed_halo_passes_a_level_that_cores_share_again(chain, device):
    def machine(sram: int):
        plain = device(sram=sram, switch_s=0.0)
        slow = SharedMemory(1024, 1e8, 0.0)  # far slower than the arrays
        return replace(plain, cores=tuple(replace(core, shared=slow) for core in plain.cores))

    cached = build_table(chain(4), machine(2 << 20)).option(Mode.FUSED, 0, 4, (0,), band_rows=28)
    tight = build_table(chain(4), machine(int(cached.sram_bytes) - 1))
    option = tight.option(Mode.FUSED, 0, 4, (0,), band_rows=28)
    assert option.macs > cached.macs
    # As above, 12 of 4 x 56 rows pass twice.
    assert option.compute_s == pytest.approx(cached.compute_s * (1 + 12 / 224))


def test_halo_that_costs_too_much_is_not_recomputed(chain, device):
    # Bands of one row would redo 6 rows for every row of the last layer.
    need = build_table(chain(4), device()).option(Mode.FUSED, 0, 4, (0,), band_rows=1).sram_bytes
    tight = build_table(chain(4), device(sram=int(need) - 1))
    try:
        option = tight.option(Mode.FUSED, 0, 4, (0,), band_rows=1)
    except ValueError:
        return
    assert option.macs == 4 * 115_605_504


def test_weights_that_do_not_fit_are_streamed_only_if_that_saves_traffic(network, device):
    net = network(16, 64, 64)
    for channels in (64, 64, 64):
        net.conv(channels)
    graph = net.graph()
    weights = graph.weight_bytes
    roomy = build_table(graph, device()).option(Mode.FUSED, 0, 3, (0,), band_rows=8)
    tight = build_table(graph, device(sram=int(roomy.sram_bytes) - 2_000))
    option = tight.option(Mode.FUSED, 0, 3, (0,), band_rows=8)
    streamed = option.dram_bytes - roomy.dram_bytes
    assert 7 * 2_000 <= streamed <= 7 * weights
    assert streamed < option.serial_dram_bytes - roomy.dram_bytes
    assert option.sram_bytes == int(roomy.sram_bytes) - 2_000


def test_tensors_from_outside_count_once_and_outputs_that_others_read_are_written(residual, device):
    graph = residual()
    table = build_table(graph, device())
    # Layers 1 to 4 are the bottleneck with projection: both branches read the stem's output.
    stem, last = graph.layers[0], graph.layers[4]
    option = table.option(Mode.FUSED, 1, 5, (0,), band_rows=1)
    weights = sum(layer.weight_bytes for layer in graph.layers[1:5])
    assert option.dram_bytes == stem.output_bytes + weights + last.output_bytes
    # Layers 1 to 3 leave both branches' ends to others.
    cut = table.option(Mode.FUSED, 1, 3, (0,), band_rows=1)
    assert cut.dram_bytes == stem.output_bytes + sum(x.weight_bytes for x in graph.layers[1:3]) + (
        graph.layers[2].output_bytes
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Mode.FUSED, 0, 1, (0,)), "at least two"),
        ((Mode.FUSED, 0, 13, (0,)), "13|at most 8"),
        ((Mode.FUSED, 0, 2, (0, 1)), "takes one core"),
        ((Mode.FUSED, 2, 4, (0,)), "not connected"),
        ((Mode.PIPELINE, 11, 13, (0, 1)), "needs all rows of layer"),
        ((Mode.FUSED, 0, 2, (0,), (1,)), "only a pipeline has"),
        ((Mode.FUSED, 0, 2, (0,), (), 0), "at least one row"),
        ((Mode.FUSED, 0, 2, (2,)), "core types"),
        ((Mode.SERIAL, 3, 3, (0,)), "at least one"),
        ((Mode.SERIAL, 0, 1, (0,), (), 4), "band height"),
        ((Mode.SPLIT, 0, 1, (0,)), "at least two cores"),
        ((Mode.SPLIT, 0, 1, (0, 0, 0)), "asks for 3 cores of type os, there are 2"),
        ((Mode.PIPELINE, 0, 2, (0, 1), (2,)), "ascending"),
        ((Mode.PIPELINE, 0, 2, (0, 1, 0)), "at least one of the 2"),
    ],
)
def test_impossible_runs_are_refused_with_the_reason(residual, device, arguments, message):
    table = build_table(residual(), device())
    with pytest.raises(ValueError, match=message):
        table.option(*arguments)


def test_too_little_memory_is_named(chain, device):
    table = build_table(chain(4), device(sram=4096))
    with pytest.raises(ValueError, match="bytes of SRAM, it has 4096"):
        table.option(Mode.FUSED, 0, 4, (0,))
    with pytest.raises(ValueError, match="bytes of SRAM"):
        table.option(Mode.PIPELINE, 0, 4, (0, 1))
    assert list(table.stacks(0)) == list(table.pipelines(0)) == []


def test_the_input_is_fetched_as_the_machine_reads_it(network, device):
    # Each row once although bands share lines, no padding, and of a strided 1x1 layer what it touches.
    net = network(8, 32, 32)
    net.conv(8, 5)
    net.conv(8, 3)
    graph = net.graph()
    for rows in (1, 3, 8, 31):
        option = build_table(graph, device()).option(Mode.FUSED, 0, 2, (0,), (), rows)
        assert option.dram_bytes == 2 * 32 * 32 * 8 + graph.weight_bytes
    net = network(8, 32, 32)
    net.conv(8, 1, stride=2)
    net.conv(8, 1)
    graph = net.graph()
    table = build_table(graph, device())
    fused = table.option(Mode.FUSED, 0, 2, (0,), (), 2)
    assert fused.dram_bytes == 2 * 16 * 16 * 8 + graph.weight_bytes
    assert table.option(Mode.PIPELINE, 0, 2, (0, 1)).dram_bytes == fused.dram_bytes
    assert fused.dram_bytes <= table.option(Mode.SERIAL, 0, 2, (0,)).dram_bytes


@pytest.mark.parametrize("strided_first", [True, False])
def test_what_two_layers_read_differently_is_fetched_once(network, device, strided_first):
    net = network(8, 32, 32)
    stem = net.conv(8)
    ways = [lambda: net.conv(16, 1, 2, [stem]), lambda: net.conv(16, 3, 2, [stem])]
    first, second = (way() for way in (ways if strided_first else ways[::-1]))
    net.add([second, first])
    graph = net.graph()
    option = build_table(graph, device()).option(Mode.FUSED, 1, 4, (0,), (), 4)
    weights = sum(layer.weight_bytes for layer in graph.layers[1:4])
    assert option.dram_bytes == 32 * 32 * 8 + weights + 16 * 16 * 16


def test_parts_of_a_concatenation_stay_in_bands(network, device):
    # Two branches of one map lie side by side in what a third layer reads: nothing of them crosses.
    net = network(8, 32, 32)
    stem = net.conv(8)
    left, right = net.conv(8, 1, inputs=[stem]), net.conv(16, 3, inputs=[stem])
    size = left[1] + right[1]
    net.conv(8, 3, inputs=[("both", size, 32, None)])
    *others, reader = net.layers
    parts = tuple(Operand(*part) for part in (left, right))
    net.layers = [*others, replace(reader, operands=parts)]
    graph = net.graph()
    table = build_table(graph, device())
    map_bytes = 32 * 32 * 8
    whole = table.option(Mode.FUSED, 0, 4, (0,), (), 4)
    assert whole.dram_bytes == 2 * map_bytes + graph.weight_bytes
    row = 32 * 8
    buffers = (6 + 4 + 6 + 6 * 3) * row  # inputs of the four layers; both parts in the last one's window
    # The left branch waits while the right one's halo and the stem's fill.
    assert whole.sram_bytes >= graph.weight_bytes + buffers + 4 * 2 * row + 4 * row
    across = table.option(Mode.FUSED, 2, 4, (0,), (), 4)  # the left part comes from outside
    weights = sum(layer.weight_bytes for layer in graph.layers[2:4])
    assert across.dram_bytes == map_bytes + left[1] + map_bytes + weights
    piped = table.option(Mode.PIPELINE, 0, 4, (0, 1), (3,))
    assert piped.link_bytes == left[1] + right[1]


@pytest.mark.parametrize("start", [1, 2])
def test_a_skip_tensor_from_outside_is_read_again_and_counted(network, device, start):
    net = network(8, 32, 32)
    skip = net.conv(8)
    net.conv(8)
    net.conv(8)
    net.add([net.last(), skip])
    graph = net.graph()
    option = build_table(graph, device()).option(Mode.FUSED, start, 4, (0,), (), 4)
    map_bytes, weights = 32 * 32 * 8, sum(layer.weight_bytes for layer in graph.layers[start:4])
    # From layer 1 on the skipped tensor is also the stack's input and crosses once; later it comes besides.
    assert option.dram_bytes == (2 if start == 1 else 3) * map_bytes + weights
