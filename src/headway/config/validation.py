"""What every schema has in common: strictness, and errors that name file, line, field, finding and remedy."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from headway.config.quantities import closest
from headway.config.yaml_file import Document, Key, Place
from headway.core.errors import HeadwayError

MOST_ERRORS = 8

Model = TypeVar("Model", bound="Strict")

Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Letters, digits, '.', '_' and '-', at most 64.",
    ),
]

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def mistake(text: str, *place: Key) -> PydanticCustomError:
    """A mistake that a check on several fields found, at a place relative to the object checked."""
    return PydanticCustomError("mistake", "{text}", {"text": text, "place": place})


def exactly_one(first: object, second: object, accepted: str) -> None:
    """Refuse unless just one of two values is there (not None)."""
    if (first is None) == (second is None):
        found = "neither" if first is None else "both"
        raise mistake(f"found {found}; accepted: exactly one of {accepted}")


class Strict(BaseModel):
    """Unchangeable, without unknown keys, and without conversions between types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        # pydantic would refuse them too, but without naming the nearest accepted key.
        if isinstance(data, dict):
            known = {field.alias or name: field for name, field in cls.model_fields.items()}
            for key in data:
                if key not in known:
                    raise mistake(f"unknown key{closest(str(key), known)}; accepted: {', '.join(known)}", key)
        return data


def validate(model: type[Model], document: Document) -> Model:
    """The document as that model. Raises HeadwayError with one line for each mistake."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        messages = [_message(detail, document) for detail in error.errors(include_url=False)]
        more = len(messages) - MOST_ERRORS
        if more > 0:
            messages[MOST_ERRORS:] = [f"{document.name}: and {more} more"]
        raise HeadwayError("\n".join(messages)) from None


def _message(detail: ErrorDetails, document: Document) -> str:
    place = _place(detail, document.data)
    return f"{document.where(place)}: {_finding(detail)}"


def _place(detail: ErrorDetails, data: Any) -> Place:
    """The error's place in the data: pydantic's, without the tags it adds for unions."""
    place: list[Key] = []
    for key in detail["loc"]:
        if isinstance(data, dict) and key in data:
            data = data[str(key)]
        elif isinstance(data, (list, tuple)) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            continue
        place.append(key)
    if detail["type"] == "missing":
        place.append(detail["loc"][-1])
    if detail["type"] == "union_tag_invalid":
        place.append(detail["ctx"]["discriminator"].strip("'"))
    place.extend(detail.get("ctx", {}).get("place", ()))
    return tuple(place)


def _finding(detail: ErrorDetails) -> str:
    kind, message, context = detail["type"], detail["msg"], detail.get("ctx", {})
    found = f"found {shown(detail['input'])}"
    if kind == "mistake":
        return message
    if kind == "quantity":
        return f"{found}: {message}"
    if kind == "missing":
        return "missing, but required"
    if kind == "union_tag_invalid":
        tag, choices = shown(context["tag"]), context["expected_tags"].replace("'", "")
        return f"found {tag}; accepted: {choices}"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{found}; accepted: a mapping of keys to values"
    if kind in ("tuple_type", "list_type"):
        return f"{found}; accepted: a list"
    if kind == "string_type":
        return f"{found}; accepted: text"
    for prefix, instead in (
        ("Input should be ", ""),
        ("String should match ", "text that matches "),
        ("String should have ", "text with "),
    ):
        if message.startswith(prefix):
            message = instead + message.removeprefix(prefix)
    return f"{found}; accepted: {message}"


def shown(value: object) -> str:
    """A value as messages quote it, long ones cut."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
