"""SCALE-Sim's topology tables as graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headway.config import load_hardware
from headway.core.errors import HeadwayError
from headway.cost.shapes import shapes_of
from headway.models import LayerKind, load_model

HEADER = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
)

# ResNet-18 with padded input sizes, as given to SCALE-Sim 3.0.0: name, input side, filter side, channels,
# filters, stride.
RESNET18 = [
    ("conv1", 230, 7, 3, 64, 2),
    *((f"layer1_{block}_conv{conv}", 58, 3, 64, 64, 1) for block in (1, 2) for conv in (1, 2)),
    ("layer2_1_conv1", 58, 3, 64, 128, 2),
    ("layer2_1_conv2", 30, 3, 128, 128, 1),
    ("layer2_1_down", 56, 1, 64, 128, 2),
    ("layer2_2_conv1", 30, 3, 128, 128, 1),
    ("layer2_2_conv2", 30, 3, 128, 128, 1),
    ("layer3_1_conv1", 30, 3, 128, 256, 2),
    ("layer3_1_conv2", 16, 3, 256, 256, 1),
    ("layer3_1_down", 28, 1, 128, 256, 2),
    ("layer3_2_conv1", 16, 3, 256, 256, 1),
    ("layer3_2_conv2", 16, 3, 256, 256, 1),
    ("layer4_1_conv1", 16, 3, 256, 512, 2),
    ("layer4_1_conv2", 9, 3, 512, 512, 1),
    ("layer4_1_down", 14, 1, 256, 512, 2),
    ("layer4_2_conv1", 9, 3, 512, 512, 1),
    ("layer4_2_conv2", 9, 3, 512, 512, 1),
    ("fc", 1, 1, 512, 1000, 1),
]


@pytest.fixture
def table(tmp_path: Path):
    def write(text: str, name: str = "net.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def _convolutions(rows) -> str:
    return HEADER + "".join(f"{n}, {i}, {i}, {f}, {f}, {c}, {k}, {s},\n" for n, i, f, c, k, s in rows)


def test_resnet18_has_the_multiply_accumulates_and_weights_of_the_network(table):
    graph = load_model(table(_convolutions(RESNET18)))

    assert graph.macs == 1_814_073_344  # the ONNX graph of torchvision's ResNet-18 counts the same
    assert graph.params == 11_689_512 - 9_600 - 1_000  # without batch normalisation and the classifier's bias
    assert len(graph.layers) == 21


def test_output_sizes_are_rounded_down_where_the_stride_leaves_a_rest(table):
    (layer,) = load_model(table(_convolutions([("conv1", 230, 7, 3, 64, 2)]))).layers

    assert (layer.dims.OY, layer.dims.OX) == (112, 112)  # SCALE-Sim has 113
    assert (layer.row_kernel, layer.row_stride, layer.output_rows) == (7, 2.0, 112)


def test_a_padded_input_of_a_known_map_is_read_without_its_padding(table):
    graph = load_model(table(_convolutions([("a", 58, 3, 64, 64, 1), ("b", 58, 3, 64, 128, 2)])))
    first, second = graph.layers
    (operand,) = second.operands

    assert (operand.producer, operand.row_wise, operand.rows) == (0, True, 56)
    assert operand.bytes == first.output_bytes == 56 * 56 * 64 * 4
    assert (second.dims.IY, second.dims.pad_top, second.dims.pad_bottom, second.row_pad) == (56, 1, 1, 1)
    assert second.dims.OY == 28
    assert [layer.is_output for layer in graph.layers] == [False, True]
    assert graph.warnings == ()


def test_layers_whose_sizes_do_not_follow_read_from_dram_and_are_counted(table):
    graph = load_model(table(_convolutions([("a", 58, 3, 3, 64, 1), ("pooled", 28, 1, 64, 8, 1)])))

    assert graph.layers[1].operands[0].producer is None
    assert graph.layers[0].is_output  # nobody in the table reads it
    assert graph.warnings[0].startswith("1 of 2 layers")
    assert "'pooled'" in graph.warnings[0]


def test_a_classifier_that_reads_a_whole_map_needs_all_of_it(table):
    graph = load_model(table(_convolutions([("a", 9, 3, 8, 16, 1), ("fc", 1, 1, 16 * 49, 10, 1)])))
    (operand,) = graph.layers[1].operands

    assert operand.producer == 0
    assert not operand.row_wise


def test_dp_in_a_name_makes_a_depthwise_layer(table):
    (layer,) = load_model(table(_convolutions([("conv_DP", 10, 3, 32, 1, 1)]))).layers

    assert (layer.dims.groups, layer.dims.K, layer.dims.C) == (32, 32, 32)
    assert layer.macs == 32 * 64 * 9
    assert layer.params == 32 * 9


def test_matrix_products_chain_by_rows(table):
    graph = load_model(table("Layer, M, N, K,\nup, 128, 256, 64,\ndown, 128, 64, 256,\n"))
    up, down = graph.layers

    assert [layer.kind for layer in graph.layers] == [LayerKind.MATMUL, LayerKind.MATMUL]
    assert (up.dims.m, up.dims.n, up.dims.k) == (128, 256, 64)
    assert graph.macs == 2 * 128 * 256 * 64
    assert (down.operands[0].producer, down.operands[0].row_wise, down.operands[0].rows) == (0, True, 128)


def test_a_batch_is_of_products_of_two_activations(table):
    (layer,) = load_model(table("Layer, M, N, K,\nqk, 128, 128, 64, 12,\n")).layers

    assert layer.macs == 12 * 128 * 128 * 64
    assert layer.weight_is_activation
    assert (layer.params, layer.weight_bytes) == (0, 0)
    assert [operand.bytes for operand in layer.operands] == [12 * 128 * 64 * 4, 12 * 128 * 64 * 4]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        (HEADER, "a header without layers"),
        ("a, b, c\n1, 2, 3\n", "net.csv:1: found the header"),
        (HEADER + "conv1, 230, 230, 7,\n", "net.csv:2: found 4 values; accepted: 8"),
        (HEADER + "conv1, 230, 230, seven, 7, 3, 64, 2,\n", "filter height: found 'seven'"),
        (HEADER + "conv1, 0, 230, 7, 7, 3, 64, 2,\n", "ifmap height: found '0'"),
        (HEADER + "conv1, 5, 230, 7, 7, 3, 64, 2,\n", "7 does not fit into an IFMAP height of 5"),
        (HEADER[:-1] + " Sparsity,\nc, 9, 9, 3, 3, 3, 8, 1, 1:4,\n", "'1:4', which has no counterpart"),
        (HEADER[:-1] + " Groups,\nc, 9, 9, 3, 3, 3, 8, 1, 2,\n", "column 'Groups' has no counterpart"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(table, text, said):
    with pytest.raises(HeadwayError) as caught:
        load_model(table(text))
    assert said in str(caught.value)


def test_a_dense_sparsity_ratio_is_no_obstacle(table):
    graph = load_model(table(HEADER[:-1] + " Sparsity,\nc, 9, 9, 3, 3, 3, 8, 1, 4:4,\n"))
    assert graph.macs == 49 * 9 * 3 * 8


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(HeadwayError, match=r"net\.csv: No such file"):
        load_model(tmp_path / "net.csv")


def test_a_table_has_no_dimensions_to_size(table):
    with pytest.raises(HeadwayError, match="batch"):
        load_model(table(_convolutions(RESNET18)), dims={"batch": 2})


def test_a_topology_on_a_configuration_takes_the_cycles_that_scalesim_counts(table, tmp_path):
    """Cycles of SCALE-Sim 3.0.0, 32 x 32 weight stationary; the first layer at its true output size."""
    config = tmp_path / "scale.cfg"
    config.write_text(
        "[architecture_presets]\nArrayHeight: 32\nArrayWidth: 32\nIfmapSramSzkB: 64\nFilterSramSzkB: 64\n"
        "OfmapSramSzkB: 64\nBandwidth: 32\nDataflow: ws\n[run_presets]\nInterfaceBandwidth: USER\n"
    )
    (core,) = load_hardware(config).cores
    shapes = shapes_of(load_model(table(_convolutions(RESNET18[:2]))))

    assert shapes.band_cycles(core, np.ones(2, dtype=np.int64)).tolist() == [126_379, 116_279]


def test_by_the_convention_of_scalesim_layers_are_those_of_its_reports(table, tmp_path):
    """SCALE-Sim 3.0.0 on 24 x 40 output stationary: a strided layer, and each channel of a depthwise one."""
    config = tmp_path / "scale.cfg"
    config.write_text(
        "[architecture_presets]\narrayheight: 24\narraywidth: 40\nifmapsramszkb: 64\nfiltersramszkb: 64\n"
        "ofmapsramszkb: 64\ndataflow: os\n[run_presets]\nInterfaceBandwidth: CALC\n"
    )
    (core,) = load_hardware(config).cores
    rows = [("s2", 30, 3, 64, 64, 2), ("proj", 28, 1, 128, 256, 2), ("x_DP", 29, 3, 3, 1, 2)]
    path = table(_convolutions(rows))
    graph = load_model(f"{path}#scalesim")

    cycles = shapes_of(graph).band_cycles(core, np.ones(5, dtype=np.int64)).tolist()
    assert cycles == [12_759, 13_299, 638, 638, 638]
    assert [layer.name for layer in graph.layers[2:]] == [f"x_DPChannel_{n}" for n in range(3)]
    assert (graph.layers[0].dims.OY, load_model(path).layers[0].dims.OY) == (15, 14)


def test_what_follows_the_last_comma_is_no_size(table):
    text = HEADER + "Conv2_dw, 112, 112, 3, 3, 1, 1, 1,#dw\nConv2D_1, 96, 96, 3, 3, 3, 8, 2, 2\n"
    graph = load_model(table(text))
    assert [layer.dims.OY for layer in graph.layers] == [110, 47]
