"""Named sets of models, and published deadlines, that suites refer to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import Field

from headway.config.quantities import DURATION, closest
from headway.config.validation import Name, Strict, mistake, validate
from headway.config.yaml_file import parse_yaml


class ModelSet(Strict):
    """Tenants that a suite's cells have: names of models, or tenants as in a scenario.

    Of a tenant only `model` is required. `share` (by default 1) is how often its requests come in proportion
    to the others'. A tenant with `sla` or `arrivals` of its own keeps them; see docs/suites.md.
    """

    name: Name
    source: Annotated[str, Field(description="Where the choice comes from.")] = ""
    tenants: Annotated[
        tuple[str | dict[str, Any], ...], Field(strict=False, json_schema_extra={"minItems": 1})
    ]


class Targets(Strict):
    """Published deadlines of models."""

    source: str
    deadlines: dict[str, str]


class _Library(Strict):
    """The file of what is shipped."""

    sets: dict[str, dict[str, Any]]
    targets: dict[str, Targets]


def model_set_names() -> tuple[str, ...]:
    """The sets that are shipped."""
    return tuple(_library().sets)


def named_set(value: object) -> object:
    """The set of that name, as plain data; what is not text is returned as it is."""
    if not isinstance(value, str):
        return value
    sets = _library().sets
    if value not in sets:
        raise mistake(
            f"no set of models named {value!r}{closest(value, sets)}; accepted: {', '.join(sets)},"
            " or a mapping with name and tenants"
        )
    return {"name": value, **sets[value]}


def targets() -> Mapping[str, Targets]:
    """The tables of published deadlines, by name."""
    return _library().targets


def target_s(table: str, model: str) -> float | None:
    """The published deadline of a model in seconds, or None if the table has none."""
    text = targets()[table].deadlines.get(model)
    return None if text is None else DURATION.parse(text)


@cache
def _library() -> _Library:
    # By way of the root package: the configuration does not import the workload.
    file = resources.files("headway") / "workload" / "model_sets.yaml"
    return validate(_Library, parse_yaml(file.read_text(encoding="utf-8"), "model_sets.yaml"))
