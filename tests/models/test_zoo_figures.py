"""The zoo's models against published figures, an independent count, the reader, and a device's cost table."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from headway.config import load_hardware
from headway.cost import build_table
from headway.models import at_width, load_model, merge, zoo

TOLERANCE = 0.005

TORCHVISION = "torchvision 0.29.1, models/*.py, num_params and _ops of the weights' metadata"
EXPORTED = "onnx/models at b1eeaa1a, turnkey_stats.yaml of the exported graph"
COMPUTED = "counted by hand from the paper's layer table"
DARKNET = (
    "recalled size of Darknet's weights file, less its header of 4 numbers, less 3 of the 4 numbers that "
)
DARKNET += "batch normalisation has per channel and that fold into others"

# Parameters, GMACs at batch 1 and default options, source of both. Batch normalisation counts in the figures
# but is folded in the graphs, which takes 0.1 to 0.5 % of the parameters of convolutional networks.
FIGURES = {
    "alexnet": (61_100_840, 0.714, f"{EXPORTED}; {TORCHVISION}"),
    "bert_base": (109_482_240, 11.174, f"{EXPORTED}; MACs 12 (4dds + 2ssd + 8dds) + dd, d=768, s=128"),
    # Per layer 12dd + 13d, embeddings (30522 + 512 + 2) d + 2d, pooler dd + d; MACs as above.
    "bert_small": (28_763_648, 1.678, f"{COMPUTED}: 4 layers, d=512, s=128"),
    "convnext_tiny": (28_589_128, 4.456, TORCHVISION),
    "densenet121": (7_978_856, 2.834, f"{EXPORTED}; {TORCHVISION}"),
    "densenet161": (28_681_000, 7.728, TORCHVISION),
    "densenet169": (14_149_480, 3.36, TORCHVISION),
    "densenet201": (20_013_928, 4.291, TORCHVISION),
    "distilbert": (66_362_880, 5.587, f"{EXPORTED}; MACs 6 (4dds + 2ssd + 8dds), d=768, s=128"),
    "dlrm": (
        2_368_897 + 26 * 1000 * 128,
        0.002458496,
        "MLPerf's layers 13-512-256-128 and 479-1024-1024-512-256-1, recalled; 27 x 27 products of 128 "
        "between; 26 tables of 1000 rows",
    ),
    "efficientnet_b0": (5_288_548, 0.386, f"{EXPORTED}; {TORCHVISION}"),
    "efficientnet_b4": (19_341_616, 4.394, TORCHVISION),
    "fbnet_c": (
        5_572_200,
        0.3782 + (16**2 * 112**2 + 2 * 24**2 * 56**2) / 1e9,
        f"{EXPORTED}; MACs of facebookresearch/mobile-vision, whose blocks of expansion 1 have no first "
        "1 x 1 convolution: the exported graph has three more",
    ),
    # 12,464 weights, 113 + 56 biases and slopes; each weight is used once per low-resolution pixel.
    "fsrcnn": (12_809, 12_464 * 560**2 / 1e9, COMPUTED),
    "googlenet": (6_624_904, 1.498, f"{EXPORTED}; {TORCHVISION}"),
    "gpt2_small": (124_439_808, 11.174, f"{EXPORTED}; MACs 12 (4dds + 2ssd + 8dds), no head"),
    "gpt2_small_decode": (
        124_439_808,
        12 * (12 * 768**2 + 2 * 129 * 768) / 1e9,
        f"{EXPORTED}; {COMPUTED}: 129 keys",
    ),
    "inception_v3": (23_834_568, 5.713, f"{EXPORTED}; {TORCHVISION}"),
    # XRBench's layer table has 19,893 weights. MACs: padded convolutions on 101 x 40, then 25 x 13.
    "kws_res8": (
        19_893,
        (101 * 40 * 171 + 25 * 13 * 6 * 3249 + 228) / 1e9,
        f"XRBench at 89156663; {COMPUTED}",
    ),
    "mobilebert": (
        24_581_888,
        128 * (384 * 512 + 24 * (4 * 512 * 128 + 3 * 128**2 + 8 * 512 * 128 + 2 * 128 * 128)) / 1e9,
        f"{EXPORTED}; {COMPUTED}: trigrams; bottlenecks, value; query, key, output; four feed-forwards; "
        "scores, context. The paper's 5.7 GFLOP (recalled) has more than products",
    ),
    "mobilenet_v1": (
        4_230_000,
        1.138 / 2,
        "timm at aa4b5850, mobilenetv1_100; MLPerf Inference, arXiv:1911.02549: 1.138 GOP",
    ),
    "mobilenet_v2": (3_504_872, 0.301, f"{EXPORTED}; {TORCHVISION}"),
    "mobilenet_v3_large": (5_483_032, 0.217, TORCHVISION),
    "mobilenet_v3_small": (2_542_856, 0.057, TORCHVISION),
    "regnet_y_1_6gf": (11_202_430, 1.612, TORCHVISION),
    "regnet_y_400mf": (4_344_144, 0.402, TORCHVISION),
    "resnet101": (44_549_160, 7.801, TORCHVISION),
    "resnet152": (60_192_808, 11.514, TORCHVISION),
    "resnet18": (11_689_512, 1.814, f"{EXPORTED}; {TORCHVISION}"),
    "resnet34": (21_797_672, 3.664, TORCHVISION),
    "resnet50": (25_557_032, 4.089, f"{EXPORTED}; {TORCHVISION}"),
    "rnnt_encoder": (
        4 * 1024 * ((240 + 1024 + 2) + 3 * (1024 + 1024 + 2) + (2048 + 1024 + 2)),
        4 * 1024 * (200 * (240 + 3 * 1024) + 100 * (2048 + 5 * 1024)) / 1e9,
        f"{COMPUTED}: layer sizes of MLPerf's rnnt.toml",
    ),
    "shufflenet_v2": (2_278_604, 0.145, TORCHVISION),
    "squeezenet": (1_235_496, 0.349, f"{EXPORTED}; {TORCHVISION}"),
    "ssd_mobilenet_v3": (3_440_060, 0.583, TORCHVISION),
    "swin_tiny": (28_288_354, 4.491, TORCHVISION),
    "tiny_yolov2": (
        63_471_556 // 4 - 4 - 3 * 3056,
        3.485,
        f"{DARKNET}; 6.97 GFLOP of arXiv:1811.05588 as cited in secondary sources",
    ),
    # With c channels and p pixels per scale, ccp is the same on all: 13.5 of it in each of the four lower
    # encoders, 9 in the top one, 29 in each decoder; the first convolution takes 9cp, the last 2cp.
    "unet": (1_940_834, (179 * 16**2 + 11 * 16) * 256**2 / 1e9, COMPUTED),
    "vgg11": (132_863_336, 7.609, TORCHVISION),
    "vgg13": (133_047_848, 11.308, TORCHVISION),
    "vgg16": (138_357_544, 15.47, f"{EXPORTED}; {TORCHVISION}"),
    "vgg19": (143_667_240, 19.632, TORCHVISION),
    "vit_b_16": (86_567_656, 17.564, f"{EXPORTED}; {TORCHVISION}"),
    # 482 MFLOP in the paper, two per MAC; it gives no parameters: 572,317 from its filters.
    "yolo_lite": (572_317, 0.241, f"arXiv:1811.05588 as cited in secondary sources; {COMPUTED}"),
    "yolov2": (
        203_934_260 // 4 - 4 - 3 * 10_336,
        31.47,
        f"{DARKNET}; 62.94 GFLOP of pjreddie.com/darknet/yolov2, recalled",
    ),
}

# Operators of the exported graphs (same file of onnx/models as the parameters).
EXPORTED_OPERATORS = {
    "alexnet": {"Conv": 5, "Gemm": 3, "MaxPool": 3, "AveragePool": 1, "Relu": 7},
    "bert_base": {"MatMul": 96, "Gemm": 1, "LayerNormalization": 25, "Softmax": 12, "Erf": 12, "Add": 122},
    # The exported graph has four more Concat, of one input each.
    "densenet121": {
        "AveragePool": 3,
        "BatchNormalization": 62,
        "Concat": 62 - 4,
        "Conv": 120,
        "Gemm": 1,
        "MaxPool": 1,
        "Relu": 121,
    },
    "distilbert": {
        "Add": 55,
        "Div": 12,
        "Erf": 6,
        "LayerNormalization": 13,
        "MatMul": 48,
        "Softmax": 6,
        "Where": 6,
    },
    "efficientnet_b0": {"Conv": 81, "Gemm": 1, "ReduceMean": 16, "Sigmoid": 65, "Mul": 65, "Add": 9},
    "fbnet_c": {"Add": 15, "Conv": 65, "Gemm": 1, "GlobalAveragePool": 1, "Relu": 44},
    "googlenet": {"Conv": 57, "Gemm": 1, "MaxPool": 13, "GlobalAveragePool": 1, "Relu": 57},
    "gpt2_small": {
        "Gemm": 48,
        "MatMul": 24,
        "LayerNormalization": 25,
        "Softmax": 12,
        "Split": 12,
        "Where": 12,
    },
    "inception_v3": {"AveragePool": 9, "Concat": 11, "Conv": 94, "Gemm": 1, "MaxPool": 4, "Relu": 94},
    "mobilebert": {"Add": 724, "MatMul": 409, "Mul": 194, "Relu": 96, "Softmax": 24, "Div": 24, "Pad": 2},
    "mobilenet_v2": {"Conv": 52, "Gemm": 1, "Clip": 35, "Add": 10, "GlobalAveragePool": 1},
    "resnet18": {"Conv": 20, "Gemm": 1, "Add": 8, "MaxPool": 1, "Relu": 17},
    "resnet50": {"Conv": 53, "Gemm": 1, "Add": 16, "MaxPool": 1, "Relu": 49},
    "squeezenet": {"Conv": 26, "Concat": 8, "MaxPool": 3, "Relu": 26, "Gemm": 0},
    "vgg16": {"Conv": 13, "Gemm": 3, "MaxPool": 5, "Relu": 15},
    "vit_b_16": {"Conv": 1, "Gemm": 13, "MatMul": 60, "Softmax": 12, "Erf": 12},
}


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the shapes that onnx finds by itself, none of those the builder wrote."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    return shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)


def shapes_of(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def counted_macs(model: onnx.ModelProto) -> int:
    """Multiply-accumulates of convolutions, matrix products and LSTMs, which published figures count."""
    graph = inferred(model).graph
    shapes = shapes_of(graph)
    macs = 0
    for node in graph.node:
        if node.op_type == "Conv":
            macs += math.prod(shapes[node.output[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type == "ConvTranspose":
            macs += math.prod(shapes[node.input[0]]) * math.prod(shapes[node.input[1]][1:])
        elif node.op_type in {"MatMul", "Gemm"}:
            macs += math.prod(shapes[node.output[0]]) * shapes[node.input[0]][-1]
        elif node.op_type == "LSTM":
            steps, batch, width = shapes[node.input[0]]
            _, _, _, hidden = shapes[node.output[0]]
            macs += steps * batch * 4 * hidden * (width + hidden)
    return macs


def test_every_model_has_figures() -> None:
    assert set(zoo.names()) == set(FIGURES)
    assert list(zoo.names()) == sorted(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_parameters_agree_with_published_figures(name: str) -> None:
    assert zoo.count_parameters(zoo.build(name, weights=False)) == pytest.approx(
        FIGURES[name][0], rel=TOLERANCE
    )


@pytest.mark.parametrize("name", zoo.names())
def test_macs_agree_with_published_figures(name: str) -> None:
    gmacs, published = counted_macs(zoo.build(name, weights=False)) / 1e9, FIGURES[name][1]
    # Small models' figures are given to the next million, which may be more than the tolerance.
    assert gmacs == pytest.approx(published, rel=TOLERANCE) or round(gmacs, 3) == published


@pytest.mark.parametrize("name", zoo.names())
def test_macs_are_those_of_inferred_shapes_and_of_the_reader(name: str) -> None:
    model = zoo.build(name, batch=2, weights=False)
    macs = zoo.count_macs(model)
    assert macs == counted_macs(model)
    assert macs == sum(layer.macs for layer in load_model(model).layers)


@pytest.mark.parametrize("name", zoo.names())
def test_every_layer_has_a_formula_and_a_cost_on_a_device(name: str) -> None:
    graph = load_model(zoo.build(name, weights=False), name=name)
    assert not graph.unknown_ops
    device = load_hardware("stream-hetero4")
    table = build_table(merge(at_width(graph, device.operand_bytes)), device)
    serial_s = np.array(table.serial_s)
    assert serial_s.shape == (table.blocks, len(table.kinds))
    assert np.isfinite(serial_s).all()
    assert (serial_s > 0).all()


def test_unet_at_the_papers_width_has_the_papers_parameters() -> None:
    # In units of 64 x 64: 9 and 13.5 (4 + 16 + 64 + 256) in the encoder, 35 (1 + 4 + 16 + 64) in the decoder;
    # first and last convolution; biases.
    weights = 64**2 * (9 + 13.5 * 340 + 35 * 85) + 9 * 64 + 2 * 64
    model = zoo.build("unet", base_width=64, weights=False)
    assert zoo.count_parameters(model) == weights + 64 * (2 * 31 + 3 * 15) + 2


@pytest.mark.parametrize("name", sorted(EXPORTED_OPERATORS))
def test_operators_are_those_of_the_exported_graph(name: str) -> None:
    graph = zoo.build(name, weights=False).graph
    counts = {op: sum(node.op_type == op for node in graph.node) for op in EXPORTED_OPERATORS[name]}
    assert counts == EXPORTED_OPERATORS[name]


@pytest.mark.parametrize("name", zoo.names())
def test_recorded_shapes_are_those_that_onnx_infers(name: str) -> None:
    model = zoo.build(name, batch=3, weights=False)
    recorded, found = shapes_of(model.graph), shapes_of(inferred(model).graph)
    assert recorded == found
    assert {shape[0] for shape in (recorded[given.name] for given in model.graph.input)} == {3}
    assert {recorded[made.name][0] for made in model.graph.output} == {3}


def test_macs_follow_the_sequence_length() -> None:
    short = counted_macs(zoo.build("bert_base", sequence_length=128, weights=False))
    long = counted_macs(zoo.build("bert_base", sequence_length=512, weights=False))
    d = 768
    assert short == 12 * (12 * d * d * 128 + 2 * 128**2 * d) + d * d
    assert long == 12 * (12 * d * d * 512 + 2 * 512**2 * d) + d * d


def test_macs_of_decoding_follow_the_cache() -> None:
    d, parameters = 768, set()
    for past in (1, 1023):
        model = zoo.build("gpt2_small_decode", past_length=past, weights=False)
        assert zoo.count_macs(model) == 12 * (12 * d * d + 2 * (past + 1) * d)
        parameters.add(zoo.count_parameters(model))
    assert len(parameters) == 1


def test_tables_of_dlrm_take_no_macs() -> None:
    small, large = (zoo.build("dlrm", table_rows=rows, weights=False) for rows in (1, 10**6))
    assert zoo.count_macs(small) == zoo.count_macs(large)
    assert zoo.count_parameters(large) - zoo.count_parameters(small) == 26 * 128 * (10**6 - 1)
