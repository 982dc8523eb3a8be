"""The repository's layout, its configurations, and that nothing leads out of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.serve.repository import Repository
from headway.serve.text_proto import parse_text_proto
from headway.serve.versions import VersionPolicy, version_policy


def put(root: Path, name: str, *versions: str, file: str = "model.onnx") -> Path:
    for version in versions:
        folder = root / name / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"onnx")
    return root / name


def chosen(root: Path, name: str, override: str | None = None) -> list[str]:
    return [source.version for source in Repository(root).sources(name, override)]


def test_the_newest_version_is_served_unless_a_policy_says_otherwise(tmp_path: Path) -> None:
    model = put(tmp_path, "m", "1", "2", "10", "notes")
    assert Repository(tmp_path).versions("m") == (1, 2, 10)
    assert chosen(tmp_path, "m") == ["10"]
    (model / "headway.yaml").write_text("version_policy: {latest: {num_versions: 2}}\n")
    assert chosen(tmp_path, "m") == ["2", "10"]
    assert chosen(tmp_path, "m", json.dumps({"version_policy": {"specific": {"versions": ["1"]}}})) == ["1"]
    (model / "headway.yaml").write_text("version_policy: {all: {}}\n")
    assert chosen(tmp_path, "m") == ["1", "2", "10"]


def test_tritons_configuration_is_read_as_far_as_it_matters(tmp_path: Path) -> None:
    model = put(tmp_path, "m", "1", "3", file="net.onnx")
    (model / "labels.txt").write_text("cat\ndog\n")
    (model / "config.pbtxt").write_text(
        """
        # a comment
        name: "m"
        platform: "onnxruntime_onnx"
        max_batch_size: 8
        input [ { name: "x" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
        output [
          { name: "y", data_type: TYPE_FP32, dims: [ -1 ], label_filename: "labels.txt" }
        ]
        default_model_filename: "net.onnx"
        version_policy: { specific { versions: 3 } }
        instance_group [ { kind: KIND_CPU count: 1 } ]
        """
    )
    (source,) = Repository(tmp_path).sources("m")
    assert (source.version, source.path) == ("3", (model / "3" / "net.onnx").resolve())
    assert source.labels == {"y": ("cat", "dog")}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('name: "other"', r"m/config.pbtxt: name: found 'other'"),
        ('platform: "tensorrt_plan"', "platform: found 'tensorrt_plan'"),
        ('default_model_filename: "../secret.onnx"', "default_model_filename"),
        ("version_policy: { newest {} }", "version_policy: found 'newest'"),
        ("version_policy: { specific { versions: [ 7 ] } }", "no folder of version 7; there are: 1"),
        ('name: "m', r"m/config.pbtxt:1: found"),
        ("input [ { ", r"config.pbtxt:1: found the end"),
        ('output { name: "y" label_filename: "../../etc/passwd" }', "leads out of the repository"),
        ('output { name: "y" label_filename: "/etc/passwd" }', "leads out of the repository"),
    ],
)
def test_configurations_that_cannot_be_are_refused(tmp_path: Path, config: str, words: str) -> None:
    model = put(tmp_path / "deep" / "models", "m", "1")
    (model / "config.pbtxt").write_text(config)
    with pytest.raises(HeadwayError, match=words) as found:
        Repository(tmp_path / "deep" / "models").sources("m")
    assert str(tmp_path) not in str(found.value)


@pytest.mark.parametrize(
    "text", ["versions: 1\n", "dims: {n: 0}\n", "dims: [1]\n", "labels: {y: 1}\n", "[]\n"]
)
def test_headways_own_configuration_is_strict(tmp_path: Path, text: str) -> None:
    model = put(tmp_path, "m", "1")
    (model / "headway.yaml").write_text(text)
    with pytest.raises(HeadwayError, match=r"^m/headway.yaml: "):
        Repository(tmp_path).sources("m")


def test_names_and_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", "m", "1")
    root = tmp_path / "models"
    root.mkdir()
    repository = Repository(root)
    for name in ("../outside/m", "..", ".", "", "m/1", str(outside), "a\0b"):
        assert not repository.holds(name)
        with pytest.raises(HeadwayError, match="no model"):
            repository.sources(name)
    (root / "linked").symlink_to(outside)
    put(root, "file", "1")
    (root / "file" / "1" / "model.onnx").unlink()
    (root / "file" / "1" / "model.onnx").symlink_to(outside / "1" / "model.onnx")
    put(root, "version", "2")
    (root / "version" / "3").symlink_to(outside / "1")
    for name in ("linked", "file", "version"):
        with pytest.raises(HeadwayError, match="leads out of the repository"):
            repository.sources(name)
    (root / "within").mkdir()
    (root / "within" / "1").symlink_to(root / "version" / "2")
    assert len(repository.sources("within")) == 1


def test_a_signature_changes_with_the_files(tmp_path: Path) -> None:
    model = put(tmp_path, "m", "1")
    repository = Repository(tmp_path)
    before = repository.signature("m")
    assert before == repository.signature("m")
    (model / "config.pbtxt").write_text('name: "m"')
    assert repository.signature("m") != before


@given(there=st.sets(st.integers(1, 50)), count=st.integers(1, 10), listed=st.sets(st.integers(1, 50)))
def test_policies_choose_among_what_is_there(there: set[int], count: int, listed: set[int]) -> None:
    assert version_policy({"all": {}}, "").chosen(there) == tuple(sorted(there))
    latest = version_policy({"latest": {"num_versions": count}}, "").chosen(there)
    assert latest == tuple(sorted(there))[-count:]
    if listed:
        specific = version_policy({"specific": {"versions": sorted(listed)}}, "").chosen(there)
        assert specific == tuple(sorted(there & listed))
    assert VersionPolicy(latest=1).chosen(()) == ()


@given(st.text(alphabet="ab_1.{}[]<>:;,\"\\'#\n -+ex", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    refused = ""
    try:
        assert isinstance(parse_text_proto(text, "x"), dict)
    except HeadwayError as error:
        refused = str(error)
    assert not refused or refused.startswith("x:")


def test_deep_messages_are_refused() -> None:
    with pytest.raises(HeadwayError, match="at most 32 messages"):
        parse_text_proto("a {" * 100_000, "x")


def test_text_format_as_published() -> None:
    text = "a: 1 a: 2 b { c: \"x\" 'y\\n' } d: [1.5, -2e3, 0x1F] e < f: true g: NAME >; h: inf"
    assert parse_text_proto(text, "x") == {
        "a": [1, 2],
        "b": {"c": "xy\n"},
        "d": [1.5, -2000.0, 31],
        "e": {"f": True, "g": "NAME"},
        "h": "inf",
    }
