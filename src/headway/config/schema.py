"""The JSON Schemas of hardware, scenario, serving and suite files, for editors and other programs."""

from __future__ import annotations

import copy
from typing import Any, Literal

from pydantic import TypeAdapter

from headway.config.hardware import AnyHardware, preset_names
from headway.config.model_sets import model_set_names
from headway.config.scenario import Scenario
from headway.config.serving import Serving
from headway.config.suites import Suite

Kind = Literal["hardware", "scenario", "serving", "suite"]
_SORTS = ("Hardware", "LaneHardware", "StreamHardware")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: Kind) -> dict[str, Any]:
    """The schema of hardware files, of scenario files, of a server's files or of suite files.

    It describes the files as written. What JSON Schema cannot say (bounds of quantities, unique names, either
    this key or that) is checked on loading only.
    """
    # Of pydantic's two modes this one shows defaults as they are written, with their units.
    if kind == "hardware":
        schema: dict[str, Any] = TypeAdapter(AnyHardware).json_schema(mode="serialization")
    elif kind == "suite":
        schema = Suite.model_json_schema(mode="serialization", by_alias=True)
        models = schema["properties"]["models"]
        models["items"] = {"anyOf": [{"enum": list(model_set_names())}, models["items"]]}
    elif kind == "serving":
        schema = Serving.model_json_schema(mode="serialization", by_alias=True)
        _admit_references_to_hardware(schema)
    else:
        schema = Scenario.model_json_schema(mode="serialization", by_alias=True)
        _admit_references_to_hardware(schema)
    return {"$schema": DIALECT, **schema}


def _admit_references_to_hardware(schema: dict[str, Any]) -> None:
    """Let `hardware` be a preset's name, a path, a description, or a preset with changes."""
    definitions = schema["$defs"]
    name: dict[str, Any] = {
        "anyOf": [{"enum": list(preset_names())}, {"type": "string", "pattern": r"\.(ya?ml|cfg)$"}]
    }
    described = [{"$ref": f"#/$defs/{sort}"} for sort in _SORTS]
    for sort in _SORTS:
        partial = _without_required(sort, definitions)
        definitions[f"Changed{sort}"] = {
            **partial,
            "title": f"Changed{sort}",
            "description": "A preset or a file, with changes laid over it.",
            "properties": {"preset": name, **partial["properties"]},
            "required": ["preset"],
        }
        described.append({"$ref": f"#/$defs/Changed{sort}"})
    schema["properties"]["hardware"] = {
        "description": "A preset's name, a path, a description, or a preset with changes.",
        "anyOf": [*name["anyOf"], *described],
    }


def _without_required(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A definition whose keys are all optional, and those of the mappings in it too (not of lists)."""
    partial: dict[str, Any] = copy.deepcopy(definitions[name])
    partial.pop("required", None)
    for key, value in partial["properties"].items():
        references = [value, *value.get("anyOf", [])]
        target = next((item["$ref"] for item in references if "$ref" in item), None)
        if target is not None:
            partial["properties"][key] = _without_required(target.removeprefix("#/$defs/"), definitions)
    return partial
