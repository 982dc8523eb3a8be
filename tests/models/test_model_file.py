"""Files: mistakes are named, weights may be absent, and external data stays inside the model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from headway.core.errors import HeadwayError
from headway.models import load_model, runtime


def external(name: str, location: str, offset: int = 0) -> onnx.TensorProto:
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", location), ("offset", str(offset)), ("length", "64")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def saved(models: Any, folder: Path, *weights: onnx.TensorProto) -> Path:
    names = [weight.name for weight in weights]
    nodes = [
        models.node("MatMul", ["x" if i == 0 else f"a{i - 1}", name], [f"a{i}"])
        for i, name in enumerate(names)
    ]
    model = models(nodes, {"x": [1, 4]}, {f"a{len(names) - 1}": None}, {w.name: w for w in weights})
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_data_is_read_at_its_offsets(models: Any, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(128))
    path = saved(models, tmp_path, external("a", "weights.bin"), external("b", "weights.bin", 64))
    graph = load_model(path, check_runtime=True)
    assert (graph.params, graph.weights_present, graph.runnable) == (32, True, True)
    assert graph.name == "model"
    assert graph.source == str(path)


def test_the_hash_covers_external_data(models: Any, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    path = saved(models, tmp_path, external("a", "weights.bin"))
    before = load_model(path).content_hash
    assert load_model(path).content_hash == before
    (tmp_path / "weights.bin").write_bytes(bytes(63) + b"\1")
    assert load_model(path).content_hash != before


@pytest.mark.parametrize("size", [None, 32])
def test_absent_or_short_external_data_loads_for_simulation(
    models: Any, tmp_path: Path, size: int | None
) -> None:
    if size is not None:
        (tmp_path / "weights.bin").write_bytes(bytes(size))
    graph = load_model(saved(models, tmp_path, external("a", "weights.bin")), check_runtime=True)
    assert (graph.macs, graph.params) == (16, 16)
    assert graph.weights_present is False
    assert graph.runnable is False
    assert "external data" in graph.refusal
    assert any("weights.bin" in warning and "simulation only" in warning for warning in graph.warnings)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("location", ["../secret", "sub/../../secret", "..\\secret", "{root}/secret", ""])
def test_external_data_outside_the_folder_is_refused(
    models: Any, tmp_path: Path, location: str, there: bool
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    if there:
        (tmp_path / "secret").write_bytes(bytes(64))
    path = saved(models, folder, external("w", location.format(root=tmp_path)))
    with pytest.raises(HeadwayError, match=r"tensor 'w'.*leaves the model's folder"):
        load_model(path)


def test_a_link_that_leads_outside_is_refused(models: Any, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(64))
    (folder / "inside.bin").symlink_to(tmp_path / "secret")
    with pytest.raises(HeadwayError, match="leaves the model's folder"):
        load_model(saved(models, folder, external("w", "inside.bin")))


def test_external_data_of_a_body_is_checked_too(models: Any, tmp_path: Path) -> None:
    body = models.body([models.node("MatMul", ["x", "w"], ["t"])], [], [models.value("t", [1, 4])])
    body.initializer.append(external("w", "../secret"))
    node = models.node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    model = models([node], {"x": [1, 4], "c": []}, {"y": None}, types={"c": TensorProto.BOOL})
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(HeadwayError, match="leaves the model's folder"):
        load_model(path)


def test_external_data_of_a_function_is_checked_too(models: Any, tmp_path: Path) -> None:
    nodes = [
        models.node("Constant", [], ["c"], value=external("c", "../secret")),
        models.node("MatMul", ["x", "c"], ["y"]),
    ]
    function = onnx.helper.make_function(
        "own", "Linear", ["x"], ["y"], nodes, [onnx.helper.make_opsetid("", 17)]
    )
    call = models.node("Linear", ["x"], ["y"], domain="own")
    model = models([call], {"x": [1, 4]}, {"y": None}, functions=[function], domains=["own"])
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(HeadwayError, match="leaves the model's folder"):
        load_model(path)


def test_external_data_before_its_file_begins_is_refused(models: Any, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    with pytest.raises(HeadwayError, match=r"tensor 'w': offset '-4'.*whole numbers from 0 on"):
        load_model(saved(models, tmp_path, external("w", "weights.bin", -4)))


def test_absent_external_data_is_named_with_its_folder(models: Any, tmp_path: Path) -> None:
    graph = load_model(saved(models, tmp_path, external("w", "parts/weights.bin")))
    assert any("'parts/weights.bin' is absent" in warning for warning in graph.warnings)


def test_a_model_in_memory_whose_data_is_elsewhere_loads(models: Any) -> None:
    model = models(
        [models.node("MatMul", ["x", "w"], ["y"])], {"x": [1, 4]}, {"y": None}, {"w": external("w", "absent")}
    )
    graph = load_model(model, name="mine")
    assert (graph.macs, graph.weights_present, graph.name) == (16, False, "mine")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"these are words, not a model", "not an ONNX model"),
        (b"PK\x03\x04" + bytes(64), "not an ONNX model"),
        (b"\x08\x08", "holds no graph"),
    ],
)
def test_what_is_no_model_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(HeadwayError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_a_model_cut_off_at_any_byte_is_an_error_or_a_model(models: Any, tmp_path: Path) -> None:
    whole = saved(models, tmp_path, onnx.numpy_helper.from_array(models.zeros(4, 4), "w")).read_bytes()
    path = tmp_path / "cut.onnx"
    refused = 0
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        try:
            load_model(path)
        except HeadwayError:
            refused += 1
    assert refused > len(whole) // 14


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="no such file"):
        load_model(tmp_path / "nothing.onnx")
    with pytest.raises(HeadwayError, match="is a folder"):
        load_model(tmp_path)


def test_graphs_without_nodes_or_outputs_are_refused(models: Any) -> None:
    with pytest.raises(HeadwayError, match="no nodes"):
        load_model(models([], {"x": [1]}, {"x": [1]}))
    with pytest.raises(HeadwayError, match="no outputs"):
        load_model(models([models.node("Relu", ["x"], ["y"])], {"x": [1]}, {}))


def test_names_that_are_no_text_are_an_error(models: Any, tmp_path: Path) -> None:
    whole = models(
        [models.node("Relu", ["x"], ["y"], name="NAME")], {"x": [1]}, {"y": None}
    ).SerializeToString()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(whole.replace(b"NAME", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(HeadwayError, match="not UTF-8 text"):
        load_model(path)


def test_damage_anywhere_is_an_error_or_a_model(
    models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise runtime.RuntimeRefusal("not asked here")

    monkeypatch.setattr(runtime, "measure_shapes", refuse)
    nodes = [
        models.node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        models.node("Reshape", ["a", "shape"], ["b"]),
        models.node("Softmax", ["b"], ["y"], axis=-1),
    ]
    weights = {"w": models.zeros(2, 3, 3, 3), "shape": np.array([1, -1])}
    whole = models(nodes, {"x": ["batch", 3, 4, 4]}, {"y": None}, weights, opset=18).SerializeToString()
    path = tmp_path / "damaged.onnx"
    rng = np.random.default_rng(0)
    loaded, messages = 0, []
    for _ in range(300):
        data = bytearray(whole)
        data[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(bytes(data))
        try:
            loaded += bool(load_model(path).layers)
        except HeadwayError as error:
            messages.append(str(error))
    assert loaded > 0
    assert messages
    assert all(str(path) in message for message in messages)
