"""The part at the start of a run that statistics leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from headway.config.quantities import FRACTION, TIME, Quantity

_TIME = Quantity(TIME, most="1000 h", least="0 s")
_SHARE = Quantity(FRACTION, most="99 %", least="0 %")


@dataclass(frozen=True, slots=True)
class Warmup:
    """The part at the start that statistics leave out: some seconds, or else a share of the whole time."""

    seconds: float | None = None
    share: float = 0.0


def _parse(value: object) -> Warmup:
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return Warmup(share=_SHARE.parse(value))
    try:
        return Warmup(seconds=_TIME.parse(value))
    except PydanticCustomError as error:
        raise PydanticCustomError(
            "quantity", '{text}; or a share such as "10 %"', {"text": error.message()}
        ) from None


def _format(warmup: Warmup) -> str:
    if warmup.seconds is None:
        return _SHARE.format(warmup.share)
    return _TIME.format(warmup.seconds)


WarmupField = Annotated[
    Warmup,
    PlainValidator(_parse),
    PlainSerializer(_format, return_type=str),
    WithJsonSchema({"anyOf": [_TIME.json_schema(), _SHARE.json_schema()]}),
]
