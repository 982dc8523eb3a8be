"""The zoo's models against published figures, an independent count, and ONNX Runtime."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import shape_inference

from headway.core.errors import HeadwayError
from headway.models import zoo

TOLERANCE = 0.005

TORCHVISION = "torchvision 0.29.1, models/*.py, num_params and _ops of the weights' metadata"
EXPORTED = "onnx/models at b1eeaa1a, turnkey_stats.yaml of the exported graph"
COMPUTED = "counted by hand from the paper's layer table"

# Parameters, GMACs at batch 1 and default options, source of both.
FIGURES = {
    "alexnet": (61_100_840, 0.714, f"{EXPORTED}; {TORCHVISION}"),
    "bert_base": (109_482_240, 11.174, f"{EXPORTED}; MACs 12 (4dds + 2ssd + 8dds) + dd, d=768, s=128"),
    # Per layer 12dd + 13d, embeddings (30522 + 512 + 2) d + 2d, pooler dd + d; MACs as above.
    "bert_small": (28_763_648, 1.678, f"{COMPUTED}: 4 layers, d=512, s=128"),
    "efficientnet_b0": (5_288_548, 0.386, f"{EXPORTED}; {TORCHVISION}"),
    # 12,464 weights, 113 + 56 biases and slopes; each weight is used once per low-resolution pixel.
    "fsrcnn": (12_809, 12_464 * 560**2 / 1e9, COMPUTED),
    "googlenet": (6_624_904, 1.498, f"{EXPORTED}; {TORCHVISION}"),
    "gpt2_small": (124_439_808, 11.174, f"{EXPORTED}; MACs 12 (4dds + 2ssd + 8dds), no head"),
    # XRBench's layer table has 19,893 weights. MACs: padded convolutions on 101 x 40, then 25 x 13.
    "kws_res8": (
        19_893,
        (101 * 40 * 171 + 25 * 13 * 6 * 3249 + 228) / 1e9,
        f"XRBench at 89156663; {COMPUTED}",
    ),
    "mobilenet_v2": (3_504_872, 0.301, f"{EXPORTED}; {TORCHVISION}"),
    "resnet18": (11_689_512, 1.814, f"{EXPORTED}; {TORCHVISION}"),
    "resnet50": (25_557_032, 4.089, f"{EXPORTED}; {TORCHVISION}"),
    "squeezenet": (1_235_496, 0.349, f"{EXPORTED}; {TORCHVISION}"),
    # With c channels and p pixels per scale, ccp is the same on all: 13.5 of it in each of the four lower
    # encoders, 9 in the top one, 29 in each decoder; the first convolution takes 9cp, the last 2cp.
    "unet": (1_940_834, (179 * 16**2 + 11 * 16) * 256**2 / 1e9, COMPUTED),
    "vgg16": (138_357_544, 15.47, f"{EXPORTED}; {TORCHVISION}"),
    "vit_b_16": (86_567_656, 17.564, f"{EXPORTED}; {TORCHVISION}"),
    # 482 MFLOP in the paper, two per MAC; it gives no parameters: 572,317 from its filters.
    "yolo_lite": (572_317, 0.241, f"arXiv:1811.05588 as cited in secondary sources; {COMPUTED}"),
}

# Operators of the exported graphs (same file of onnx/models as the parameters).
EXPORTED_OPERATORS = {
    "alexnet": {"Conv": 5, "Gemm": 3, "MaxPool": 3, "AveragePool": 1, "Relu": 7},
    "bert_base": {"MatMul": 96, "Gemm": 1, "LayerNormalization": 25, "Softmax": 12, "Erf": 12, "Add": 122},
    "efficientnet_b0": {"Conv": 81, "Gemm": 1, "ReduceMean": 16, "Sigmoid": 65, "Mul": 65, "Add": 9},
    "googlenet": {"Conv": 57, "Gemm": 1, "MaxPool": 13, "GlobalAveragePool": 1, "Relu": 57},
    "gpt2_small": {
        "Gemm": 48,
        "MatMul": 24,
        "LayerNormalization": 25,
        "Softmax": 12,
        "Split": 12,
        "Where": 12,
    },
    "mobilenet_v2": {"Conv": 52, "Gemm": 1, "Clip": 35, "Add": 10, "GlobalAveragePool": 1},
    "resnet18": {"Conv": 20, "Gemm": 1, "Add": 8, "MaxPool": 1, "Relu": 17},
    "resnet50": {"Conv": 53, "Gemm": 1, "Add": 16, "MaxPool": 1, "Relu": 49},
    "squeezenet": {"Conv": 26, "Concat": 8, "MaxPool": 3, "Relu": 26, "Gemm": 0},
    "vgg16": {"Conv": 13, "Gemm": 3, "MaxPool": 5, "Relu": 15},
    "vit_b_16": {"Conv": 1, "Gemm": 13, "MatMul": 60, "Softmax": 12, "Erf": 12},
}

# Options that make a run cheap, and the shape of the first output at batch 2.
SMALL_RUNS = {
    "alexnet": ({}, (2, 1000)),
    "bert_base": ({"sequence_length": 9}, (2, 9, 768)),
    "bert_small": ({"sequence_length": 9}, (2, 9, 512)),
    "efficientnet_b0": ({"image_size": 96}, (2, 1000)),
    "fsrcnn": ({"image_size": 24, "scale": 3}, (2, 1, 72, 72)),
    "googlenet": ({"image_size": 96}, (2, 1000)),
    "gpt2_small": ({"sequence_length": 9}, (2, 9, 768)),
    "kws_res8": ({"frames": 50}, (2, 12)),
    "mobilenet_v2": ({"image_size": 96}, (2, 1000)),
    "resnet18": ({"image_size": 97}, (2, 1000)),
    "resnet50": ({"image_size": 96}, (2, 1000)),
    "squeezenet": ({"image_size": 75}, (2, 1000)),
    "unet": ({"image_size": 48, "base_width": 8}, (2, 2, 48, 48)),
    "vgg16": ({}, (2, 1000)),
    "vit_b_16": ({"image_size": 64}, (2, 1000)),
    "yolo_lite": ({"image_size": 96}, (2, 125, 3, 3)),
}
LARGE = ("alexnet", "bert_base", "gpt2_small", "vgg16", "vit_b_16")


def models(*, large: bool = True) -> list[object]:
    """All names; those of several hundred megabytes of weights as slow where `large` says they are built."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if large and name in LARGE else name
        for name in zoo.names()
    ]


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
    """Multiply-accumulates of convolutions and matrix products, which published figures count."""
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
    return macs


def run(model: onnx.ModelProto, seed: int = 0) -> list[np.ndarray]:
    """The outputs for random inputs; token ids are small numbers, masks hide the last token."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(seed)
    feed = {}
    for given in session.get_inputs():
        if given.name == "attention_mask":
            feed[given.name] = np.ones(given.shape, np.int64)
            feed[given.name][:, -1] = 0
        elif given.type == "tensor(int64)":
            feed[given.name] = random.integers(0, 1000, given.shape)
        else:
            feed[given.name] = random.standard_normal(given.shape, dtype=np.float32)
    return session.run(None, feed)


def test_every_model_has_figures_and_a_run() -> None:
    assert set(zoo.names()) == set(FIGURES) == set(SMALL_RUNS)
    assert list(zoo.names()) == sorted(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_parameters_agree_with_published_figures(name: str) -> None:
    assert zoo.count_parameters(zoo.build(name, weights=False)) == pytest.approx(
        FIGURES[name][0], rel=TOLERANCE
    )


@pytest.mark.parametrize("name", zoo.names())
def test_macs_agree_with_published_figures(name: str) -> None:
    macs = counted_macs(zoo.build(name, weights=False))
    assert macs / 1e9 == pytest.approx(FIGURES[name][1], rel=TOLERANCE)


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


@pytest.mark.parametrize("name", models())
def test_runs_in_onnx_runtime_at_another_batch_and_size(name: str) -> None:
    options, shape = SMALL_RUNS[name]
    model = zoo.build(name, batch=2, **options)
    onnx.checker.check_model(model)
    outputs = run(model)
    assert outputs[0].shape == shape
    assert len(outputs) == len(model.graph.output)
    for output in outputs:
        assert np.isfinite(output).all()
        assert not np.allclose(output[0], output[1]), "the output does not depend on the input"


@pytest.mark.parametrize("name", models())
def test_runs_in_onnx_runtime_at_its_defaults(name: str) -> None:
    model = zoo.build(name)
    declared = [
        tuple(dim.dim_value for dim in made.type.tensor_type.shape.dim) for made in model.graph.output
    ]
    outputs = run(model)
    assert [output.shape for output in outputs] == declared
    assert all(np.isfinite(output).all() for output in outputs)
    assert all(output.std() > 1e-3 for output in outputs)


def test_bert_ignores_masked_tokens() -> None:
    import onnxruntime

    bert = zoo.build("bert_small", sequence_length=6)
    session = onnxruntime.InferenceSession(bert.SerializeToString(), providers=["CPUExecutionProvider"])
    mask = np.array([[1, 1, 1, 1, 0, 0]])
    short, changed = np.array([[5, 6, 7, 8, 9, 10]]), np.array([[5, 6, 7, 8, 11, 12]])
    first = session.run(None, {"input_ids": short, "attention_mask": mask})[0]
    second = session.run(None, {"input_ids": changed, "attention_mask": mask})[0]
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-5)
    assert not np.allclose(first[:, 4:], second[:, 4:])


@pytest.mark.slow
def test_gpt2_is_causal() -> None:
    import onnxruntime

    gpt2 = zoo.build("gpt2_small", sequence_length=5)
    session = onnxruntime.InferenceSession(gpt2.SerializeToString(), providers=["CPUExecutionProvider"])
    first = session.run(None, {"input_ids": np.array([[1, 2, 3, 4, 5]])})[0]
    second = session.run(None, {"input_ids": np.array([[1, 2, 3, 9, 5]])})[0]
    np.testing.assert_allclose(first[:, :3], second[:, :3], atol=1e-5)
    assert not np.allclose(first[:, 3:], second[:, 3:])


def test_same_seed_same_model_and_another_seed_other_weights() -> None:
    first, second, other = (zoo.build("kws_res8", seed=seed) for seed in (7, 7, 8))
    assert first == second
    assert all(
        one.raw_data != two.raw_data
        for one, two in zip(first.graph.initializer, other.graph.initializer, strict=True)
    )


def test_weights_do_not_depend_on_what_stands_elsewhere_in_the_model() -> None:
    narrow, wide = (zoo.build("fsrcnn", image_size=32, scale=scale) for scale in (2, 3))
    longer = zoo.build("bert_small", sequence_length=64)
    shorter = zoo.build("bert_small", sequence_length=16)
    for one, two in ((narrow, wide), (longer, shorter)):
        mine = {tensor.name: tensor.raw_data for tensor in one.graph.initializer}
        others = {tensor.name: tensor.raw_data for tensor in two.graph.initializer}
        differing = {name for name in mine if mine[name] != others[name]}
        assert differing <= {"upscale.weight"}  # its scale follows the stride


@pytest.mark.parametrize("name", ["vgg16", "bert_base", "kws_res8"])
def test_without_weights_the_graph_is_the_same_and_has_no_data(name: str) -> None:
    bare = zoo.build(name, weights=False)
    assert bare.ByteSize() < 200_000
    for tensor in bare.graph.initializer:
        assert tensor.data_location == onnx.TensorProto.EXTERNAL
        assert [(entry.key, entry.value) for entry in tensor.external_data] == [("location", "absent")]
        assert not tensor.raw_data
    if name == "kws_res8":
        full = zoo.build(name)
        assert list(full.graph.node) == list(bare.graph.node)
        assert [tuple(tensor.dims) for tensor in full.graph.initializer] == [
            tuple(tensor.dims) for tensor in bare.graph.initializer
        ]


def test_macs_follow_the_sequence_length() -> None:
    short = counted_macs(zoo.build("bert_base", sequence_length=128, weights=False))
    long = counted_macs(zoo.build("bert_base", sequence_length=512, weights=False))
    d = 768
    assert short == 12 * (12 * d * d * 128 + 2 * 128**2 * d) + d * d
    assert long == 12 * (12 * d * d * 512 + 2 * 512**2 * d) + d * d


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet5O", {}, r"no model named 'resnet5O' \(did you mean 'resnet50'\?\); accepted: alexnet, "),
        (
            "resnet50",
            {"imagesize": 64},
            r"no option named 'imagesize' \(did you mean 'image_size'\?\); accepted",
        ),
        ("resnet50", {"sequence_length": 64}, r"no option named 'sequence_length'.*accepted: image_size"),
        ("bert_base", {"sequence_length": 513}, r"sequence_length = 513; accepted: .* from 1 to 512"),
        ("gpt2_small", {"sequence_length": 0}, r"sequence_length = 0; accepted: .* from 1 to 1024"),
        ("resnet50", {"batch": 0}, r"batch = 0; accepted: a whole number, at least 1"),
        ("resnet50", {"batch": True}, r"batch = True; accepted: a whole number"),
        ("resnet50", {"seed": -1}, r"seed = -1; accepted: a whole number, at least 0"),
        ("resnet50", {"image_size": 64.0}, r"image_size = 64\.0; accepted: a whole number"),
        ("resnet50", {"image_size": None}, r"image_size = None; accepted: a whole number"),
        ("vit_b_16", {"image_size": 100}, r"image_size = 100; accepted: a multiple of 16"),
        ("unet", {"image_size": 100}, r"image_size = 100; accepted: a multiple of 16"),
        ("vgg16", {"image_size": 256}, r"image_size leaves 8 x 8 .* accepted: .* a multiple of 7"),
        ("yolo_lite", {"image_size": 16}, r"yolo_lite.* the input is too small"),
        ("alexnet", {"image_size": 8}, r"alexnet.* the input is too small"),
        ("kws_res8", {"frames": 3}, r"frames = 3; accepted: a whole number, at least 4"),
    ],
)
def test_mistakes_are_told_with_what_is_accepted(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        zoo.build(name, weights=False, **options)


def test_describe_says_what_a_model_takes() -> None:
    entry = zoo.describe("fsrcnn")
    assert (entry.name, entry.family) == ("fsrcnn", "fsrcnn")
    assert {option.name: option.default for option in entry.options} == {"image_size": 560, "scale": 2}
    with pytest.raises(HeadwayError, match="did you mean 'fsrcnn'"):
        zoo.describe("fsrcn")


@pytest.mark.parametrize("name", zoo.names())
def test_described_inputs_are_those_of_the_graph(name: str) -> None:
    told = zoo.describe(name).inputs
    for given in zoo.build(name, weights=False).graph.input:
        assert given.name in told
        sizes = [dim.dim_value for dim in given.type.tensor_type.shape.dim][1:]
        assert re.search("N x " + " x ".join(map(str, sizes)), told)


def test_saved_model_loads_with_its_weights_inside_or_beside(tmp_path: Path) -> None:
    model = zoo.build("kws_res8")
    inside = zoo.save(model, tmp_path / "inside.onnx")
    expected = run(onnx.load(inside[0]))[0]
    beside = zoo.save(model, tmp_path / "beside.onnx", external_above_bytes=1000)
    assert [file.name for file in inside] == ["inside.onnx"]
    assert [file.name for file in beside] == ["beside.onnx", "beside.onnx.data"]
    assert beside[0].stat().st_size < inside[0].stat().st_size
    np.testing.assert_array_equal(run(onnx.load(beside[0]))[0], expected)


def test_overwriting_replaces_the_file_of_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    sizes = set()
    for _ in range(2):
        files = zoo.save(zoo.build("kws_res8"), path, external_above_bytes=1000, overwrite=True)
        sizes.add(files[1].stat().st_size)
    assert len(sizes) == 1
    with pytest.raises(HeadwayError, match=r"model\.onnx: exists already"):
        zoo.save(zoo.build("kws_res8"), path)


def test_a_file_of_weights_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model.onnx.data").write_text("somebody's")
    with pytest.raises(HeadwayError, match=r"model\.onnx\.data: exists already"):
        zoo.save(zoo.build("kws_res8"), tmp_path / "model.onnx", external_above_bytes=1000)
    assert not (tmp_path / "model.onnx").exists()
