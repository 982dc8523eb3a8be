"""What a repository's model says of itself: Triton's config.pbtxt as far as it matters, or headway.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from headway.config.batching import Batching
from headway.config.yaml_file import parse_yaml
from headway.core.errors import HeadwayError
from headway.serve.text_proto import parse_text_proto
from headway.serve.versions import LATEST, VersionPolicy, version_policy

MODEL_FILE: Final = "model.onnx"
_PLATFORMS: Final = ("onnxruntime_onnx", "onnxruntime", "")
_YAML_KEYS: Final = ("batching", "dims", "labels", "version_policy")
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """A model's version policy, the name of its file, fixed sizes of symbolic dimensions, files of labels,
    and whether requests run together."""

    policy: VersionPolicy = LATEST
    file: str = MODEL_FILE
    dims: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    batching: Batching | None = None


def read_config(path: Path, where: str, name: str) -> RepositoryConfig:
    """A configuration file, by its ending. Raises HeadwayError naming the field for what is not accepted."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise HeadwayError(f"{where}: larger than {_MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise HeadwayError(f"{where}: cannot be read; accepted: text in UTF-8") from None
    if path.suffix == ".pbtxt":
        return with_changes(RepositoryConfig(), parse_text_proto(text, where), where, name)
    return _of_yaml(parse_yaml(text, where).data, where)


def with_changes(config: RepositoryConfig, data: Any, where: str, name: str) -> RepositoryConfig:
    """The configuration with what a Triton model configuration says; its other fields are not regarded.

    Raises HeadwayError for another name or platform than this one, and for fields of the wrong form.
    """
    if not isinstance(data, Mapping):
        raise HeadwayError(f"{where}: found {type(data).__name__}; accepted: a model configuration")
    if data.get("name", name) not in (name, ""):
        raise HeadwayError(f"{where}: name: found {data['name']!r}; accepted: {name!r}, as its folder")
    for key in ("platform", "backend"):
        if data.get(key, "") not in _PLATFORMS:
            raise HeadwayError(f"{where}: {key}: found {data[key]!r}; accepted: {', '.join(_PLATFORMS[:-1])}")
    if "version_policy" in data:
        config = replace(config, policy=version_policy(data["version_policy"], f"{where}: version_policy"))
    file = data.get("default_model_filename", "") or config.file
    if not isinstance(file, str) or Path(file).name != file or not file.endswith(".onnx"):
        raise HeadwayError(
            f"{where}: default_model_filename: found {file!r}; accepted: the name of an .onnx file"
        )
    outputs = data.get("output", [])
    outputs = outputs if isinstance(outputs, list) else [outputs]
    labels = dict(config.labels)
    for output in outputs:
        if not isinstance(output, Mapping):
            raise HeadwayError(f"{where}: output: found {output!r}; accepted: messages with a name")
        label_file = output.get("label_filename", "")
        if label_file:
            labels[str(output.get("name", ""))] = str(label_file)
    if "dynamic_batching" in data:
        config = replace(config, batching=_dynamic_batching(data, where))
    return replace(config, file=file, labels=labels)


def _dynamic_batching(data: Mapping[str, Any], where: str) -> Batching | None:
    """Triton's dynamic batching; preferred sizes are not regarded, since what a batch takes is known."""
    asked, most = data["dynamic_batching"], data.get("max_batch_size", 0)
    if not isinstance(asked, Mapping):
        raise HeadwayError(f"{where}: dynamic_batching: found {asked!r}; accepted: a message")
    delay_us = asked.get("max_queue_delay_microseconds", 0)
    return _batching({"max_size": most, "delay": f"{delay_us} us"}, f"{where}: max_batch_size")


def _batching(data: Any, where: str) -> Batching | None:
    """None for batches of one. Raises HeadwayError for what is none."""
    from pydantic import ValidationError

    if isinstance(data, Mapping) and data.get("max_size") == 1:
        return None
    try:
        return Batching.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise HeadwayError(f"{where}: {place}: {first['msg']}") from None


def _of_yaml(data: Any, where: str) -> RepositoryConfig:
    if not isinstance(data, Mapping):
        raise HeadwayError(f"{where}: found {type(data).__name__}; accepted: keys {', '.join(_YAML_KEYS)}")
    for key in data:
        if key not in _YAML_KEYS:
            raise HeadwayError(f"{where}: unknown key {key!r}; accepted: {', '.join(_YAML_KEYS)}")
    dims, labels = data.get("dims", {}), data.get("labels", {})
    if not isinstance(dims, Mapping) or not all(type(size) is int and size > 0 for size in dims.values()):
        raise HeadwayError(f"{where}: dims: found {dims!r}; accepted: sizes from 1 on by name")
    if not isinstance(labels, Mapping) or not all(isinstance(file, str) for file in labels.values()):
        raise HeadwayError(f"{where}: labels: found {labels!r}; accepted: files by output")
    policy = LATEST
    if "version_policy" in data:
        policy = version_policy(data["version_policy"], f"{where}: version_policy")
    batching = _batching(data["batching"], f"{where}: batching") if "batching" in data else None
    return RepositoryConfig(policy, dims=dict(dims), labels=dict(labels), batching=batching)
