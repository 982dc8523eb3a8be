"""The zoo's models in ONNX Runtime, their options and weights, and what is said of mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from headway.core.errors import HeadwayError
from headway.models import zoo

# Options that make a run cheap, and the shape of the first output at batch 2.
SMALL_RUNS = {
    "alexnet": ({}, (2, 1000)),
    "bert_base": ({"sequence_length": 9}, (2, 9, 768)),
    "bert_small": ({"sequence_length": 9}, (2, 9, 512)),
    "convnext_tiny": ({"image_size": 64}, (2, 1000)),
    "densenet121": ({"image_size": 64}, (2, 1000)),
    "densenet161": ({"image_size": 64}, (2, 1000)),
    "densenet169": ({"image_size": 64}, (2, 1000)),
    "densenet201": ({"image_size": 64}, (2, 1000)),
    "distilbert": ({"sequence_length": 9}, (2, 9, 768)),
    "dlrm": ({"table_rows": 1500}, (2, 1)),
    "efficientnet_b0": ({"image_size": 96}, (2, 1000)),
    "efficientnet_b4": ({"image_size": 96}, (2, 1000)),
    "fbnet_c": ({"image_size": 96}, (2, 1000)),
    "fsrcnn": ({"image_size": 24, "scale": 3}, (2, 1, 72, 72)),
    "googlenet": ({"image_size": 96}, (2, 1000)),
    "gpt2_small": ({"sequence_length": 9}, (2, 9, 768)),
    "gpt2_small_decode": ({"past_length": 5}, (2, 1, 768)),
    "inception_v3": ({"image_size": 107}, (2, 1000)),
    "kws_res8": ({"frames": 50}, (2, 12)),
    "mobilebert": ({"sequence_length": 9}, (2, 9, 512)),
    "mobilenet_v1": ({"image_size": 96}, (2, 1000)),
    "mobilenet_v2": ({"image_size": 96}, (2, 1000)),
    "mobilenet_v3_large": ({"image_size": 96}, (2, 1000)),
    "mobilenet_v3_small": ({"image_size": 96}, (2, 1000)),
    "regnet_y_1_6gf": ({"image_size": 96}, (2, 1000)),
    "regnet_y_400mf": ({"image_size": 96}, (2, 1000)),
    "resnet101": ({"image_size": 64}, (2, 1000)),
    "resnet152": ({"image_size": 64}, (2, 1000)),
    "resnet18": ({"image_size": 97}, (2, 1000)),
    "resnet34": ({"image_size": 64}, (2, 1000)),
    "resnet50": ({"image_size": 96}, (2, 1000)),
    "rnnt_encoder": ({"steps": 6}, (2, 3, 1024)),
    "shufflenet_v2": ({"image_size": 96}, (2, 1000)),
    "squeezenet": ({"image_size": 75}, (2, 1000)),
    "ssd_mobilenet_v3": ({"image_size": 96}, (2, 312, 4)),
    "swin_tiny": ({"image_size": 64}, (2, 1000)),
    "tiny_yolov2": ({"image_size": 64}, (2, 125, 2, 2)),
    "unet": ({"image_size": 48, "base_width": 8}, (2, 2, 48, 48)),
    "vgg11": ({}, (2, 1000)),
    "vgg13": ({}, (2, 1000)),
    "vgg16": ({}, (2, 1000)),
    "vgg19": ({}, (2, 1000)),
    "vit_b_16": ({"image_size": 64}, (2, 1000)),
    "yolo_lite": ({"image_size": 96}, (2, 125, 3, 3)),
    "yolov2": ({"image_size": 96}, (2, 425, 3, 3)),
}
LARGE = (
    "alexnet",
    "bert_base",
    "convnext_tiny",
    "densenet161",
    "densenet201",
    "distilbert",
    "gpt2_small",
    "gpt2_small_decode",
    "resnet101",
    "resnet152",
    "rnnt_encoder",
    "swin_tiny",
    "vgg16",
    "vit_b_16",
    "yolov2",
)
# Large models that run at defaults as their siblings do, or as they do in a small run.
RUN_ONCE = (
    "densenet161",
    "densenet201",
    "distilbert",
    "gpt2_small_decode",
    "resnet101",
    "resnet152",
)
VGGS = ("vgg11", "vgg13", "vgg19")


def models(*, but: tuple[str, ...] = ()) -> list[object]:
    """All names except some; those of over a hundred megabytes of weights as slow."""
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
        for name in zoo.names()
        if name not in but
    ]


def session_of(model: onnx.ModelProto) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def with_parameters_as_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph of a model without weights, so that neither checker nor runtime looks for them."""
    for tensor in model.graph.initializer:
        given = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(given)
    del model.graph.initializer[:]
    return model


def run(model: onnx.ModelProto, seed: int = 0) -> list[np.ndarray]:
    """The outputs for random inputs; token ids are small numbers, masks hide the last token."""
    session = session_of(model)
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


def test_every_model_has_a_run() -> None:
    assert set(zoo.names()) == set(SMALL_RUNS)


@pytest.mark.parametrize("name", zoo.names())
def test_graphs_are_valid(name: str) -> None:
    onnx.checker.check_model(with_parameters_as_inputs(zoo.build(name, weights=False)), full_check=True)


@pytest.mark.parametrize("name", models(but=VGGS))
def test_runs_in_onnx_runtime_at_another_batch_and_size(name: str) -> None:
    options, shape = SMALL_RUNS[name]
    model = zoo.build(name, batch=2, **options)
    outputs = run(model)
    assert outputs[0].shape == shape
    assert len(outputs) == len(model.graph.output)
    for output in outputs:
        assert np.isfinite(output).all()
        assert not np.allclose(output[0], output[1]), "the output does not depend on the input"


@pytest.mark.slow
@pytest.mark.parametrize("name", VGGS)
def test_siblings_of_vgg16_run_on_weights_given_from_outside(name: str) -> None:
    """As the runs above, but without making, writing and reading half a gigabyte of weights for each."""
    options, shape = SMALL_RUNS[name]
    session = session_of(with_parameters_as_inputs(zoo.build(name, batch=2, weights=False, **options)))
    block = np.random.default_rng(0).standard_normal(2**20 - 1, dtype=np.float32)
    feed = {}
    for given in session.get_inputs():
        fan_in = np.prod(given.shape[1:])
        feed[given.name] = np.resize(block * np.float32(np.sqrt(2 / fan_in)), given.shape)
    feed["image"] = np.random.default_rng(1).standard_normal((2, 3, 224, 224), dtype=np.float32)
    (output,) = session.run(None, feed)
    assert output.shape == shape
    assert np.isfinite(output).all()
    assert not np.allclose(output[0], output[1]), "the output does not depend on the input"


@pytest.mark.parametrize("name", models(but=(*RUN_ONCE, *VGGS)))
def test_runs_in_onnx_runtime_at_its_defaults(name: str) -> None:
    model = zoo.build(name)
    declared = [
        tuple(dim.dim_value for dim in made.type.tensor_type.shape.dim) for made in model.graph.output
    ]
    outputs = run(model)
    assert [output.shape for output in outputs] == declared
    assert all(np.isfinite(output).all() for output in outputs)
    assert all(output.std() > 1e-3 for output in outputs if output.size > 1)


@pytest.mark.parametrize("name", ["bert_small", pytest.param("distilbert", marks=pytest.mark.slow)])
def test_masked_tokens_are_ignored(name: str) -> None:
    session = session_of(zoo.build(name, sequence_length=6))
    mask = np.array([[1, 1, 1, 1, 0, 0]])
    short, changed = np.array([[5, 6, 7, 8, 9, 10]]), np.array([[5, 6, 7, 8, 11, 12]])
    first = session.run(None, {"input_ids": short, "attention_mask": mask})[0]
    second = session.run(None, {"input_ids": changed, "attention_mask": mask})[0]
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-5)
    assert not np.allclose(first[:, 4:], second[:, 4:])


def test_mobilebert_sees_only_the_neighbour_of_a_masked_token() -> None:
    """Its embeddings are of three tokens each, so the last one kept reads the first one masked."""
    session = session_of(zoo.build("mobilebert", sequence_length=6))
    mask = np.array([[1, 1, 1, 1, 0, 0]])
    base, far, near = ([5, 6, 7, 8, 9, 10], [5, 6, 7, 8, 9, 12], [5, 6, 7, 8, 11, 10])
    first, second, third = (
        session.run(None, {"input_ids": np.array([ids]), "attention_mask": mask})[0]
        for ids in (base, far, near)
    )
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-6)
    assert not np.allclose(first[:, 3], third[:, 3], atol=1e-5)


@pytest.mark.slow
def test_gpt2_is_causal() -> None:
    session = session_of(zoo.build("gpt2_small", sequence_length=5))
    first = session.run(None, {"input_ids": np.array([[1, 2, 3, 4, 5]])})[0]
    second = session.run(None, {"input_ids": np.array([[1, 2, 3, 9, 5]])})[0]
    np.testing.assert_allclose(first[:, :3], second[:, :3], atol=1e-5)
    assert not np.allclose(first[:, 3:], second[:, 3:])


@pytest.mark.slow
def test_gpt2_decodes_what_it_would_have_read() -> None:
    """The step behind four tokens gives what the prefill of all five gives for the last one."""
    ids, past = np.array([[11, 22, 33, 44, 55]]), 4
    prefill = zoo.build("gpt2_small", sequence_length=5)
    splits = [node for node in prefill.graph.node if node.op_type == "Split"]
    shapes = {value.name: value for value in prefill.graph.value_info}
    prefill.graph.output.extend(shapes[name] for node in splits for name in node.output[1:])
    expected, *cached = session_of(prefill).run(None, {"input_ids": ids})
    feed = {"input_ids": ids[:, past:]}
    for index, values in enumerate(cached):
        heads = values.reshape(1, 5, 12, 64).transpose(0, 2, 1, 3)
        feed[f"past_{index // 2}_{('key', 'value')[index % 2]}"] = heads[:, :, :past]
    decoded, *presents = session_of(zoo.build("gpt2_small_decode", past_length=past)).run(None, feed)
    np.testing.assert_allclose(decoded[:, 0], expected[:, past], atol=1e-4)
    for values, present in zip(cached, presents, strict=True):
        np.testing.assert_allclose(present, values.reshape(1, 5, 12, 64).transpose(0, 2, 1, 3), atol=1e-4)


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
        ("swin_tiny", {"image_size": 100}, r"image_size = 100; accepted: a multiple of 32"),
        ("yolov2", {"image_size": 100}, r"image_size = 100; accepted: a multiple of 32"),
        ("rnnt_encoder", {"steps": 5}, r"steps = 5; accepted: an even number"),
        ("mobilebert", {"sequence_length": 1}, r"sequence_length = 1; accepted: .* from 2 to 512"),
        ("gpt2_small_decode", {"past_length": 1024}, r"past_length = 1024; accepted: .* from 1 to 1023"),
        ("inception_v3", {"image_size": 64}, r"inception_v3.* the input is too small"),
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
