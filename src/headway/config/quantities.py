"""Numbers with units, as text: ``2 MiB``, ``16 GB/s``, ``20 ms``. In the program they are floats in SI."""

from __future__ import annotations

import decimal
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_QUANTITY = re.compile(rf"\s*({NUMBER})\s*(.*?)\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)  # typing hashes annotations
class Dimension:
    """What is measured, and its units as multiples of the SI unit, the most natural one first."""

    noun: str
    example: str
    units: Mapping[str, Decimal]

    @property
    def accepted(self) -> str:
        """What to write, in words."""
        return f'{self.noun} such as "{self.example}" (units: {", ".join(self.units)})'


def _units(**factors: str) -> dict[str, Decimal]:
    return {name: Decimal(factor) for name, factor in factors.items()}


_BYTES = _units(MiB="1048576", KiB="1024", GiB="1073741824", TiB="1099511627776", B="1") | _units(
    kB="1e3", MB="1e6", GB="1e9", TB="1e12"
)
SIZE = Dimension("a size", "2 MiB", _BYTES)
BANDWIDTH = Dimension(
    "a bandwidth",
    "16 GB/s",
    {f"{unit}/s": _BYTES[unit] for unit in ("GB", "MB", "kB", "B", "TB", "GiB", "MiB", "KiB", "TiB")},
)
FREQUENCY = Dimension("a frequency", "700 MHz", _units(MHz="1e6", GHz="1e9", kHz="1e3", Hz="1"))
TIME = Dimension("a time", "20 ms", _units(ms="1e-3", s="1", us="1e-6", ns="1e-9", min="60", h="3600"))
RATE = Dimension(
    "a rate",
    "50 /s",
    # Per minute and hour are no decimal fractions of a hertz; 28 digits are more than a float holds.
    {
        "/s": Decimal(1),
        "fps": Decimal(1),
        "/ms": Decimal(1000),
        "/min": Decimal(1) / 60,
        "/h": Decimal(1) / 3600,
    },
)
ENERGY = Dimension("an energy", "0.04 pJ", _units(pJ="1", nJ="1e3"))  # in pJ
ENERGY_PER_BYTE = Dimension(
    "an energy per data", "60 pJ/B", {"pJ/B": Decimal(1), "pJ/bit": Decimal(8), "nJ/B": Decimal(1000)}
)  # in pJ per byte
FRACTION = Dimension("a share", "10 %", {"%": Decimal("0.01")})


@dataclass(frozen=True, slots=True)
class Quantity:
    """Annotation of a float field that is written with its unit.

    `most` (a quantity) is the largest value accepted, `least` the smallest; without `least` a value must be
    above zero.
    """

    dimension: Dimension
    most: str
    least: str | None = None

    def parse(self, value: object) -> float:
        """The value in SI units (energies in pJ). Raises PydanticCustomError saying what is accepted."""
        number = self._number(value)
        if self.least is None:
            if number <= 0:
                raise _refused(f"must be greater than 0: {self.dimension.accepted}")
        elif number < self._number(self.least):
            raise _refused(f"must be at least {self.least}: {self.dimension.accepted}")
        if number > self._number(self.most):
            raise _refused(f"must be at most {self.most}")
        return number

    def format(self, number: float) -> str:
        """The shortest text that `parse` turns into exactly this number."""
        texts = []
        for unit, factor in self.dimension.units.items():
            short = (Decimal(repr(number)) / factor).normalize()
            texts += [f"{form} {unit}" for form in (f"{short:f}", str(short)) if len(form) <= 40]
        exact = [text for text in texts if self._number(text) == number]
        return min(exact, key=len)  # min keeps the first of equals, the more natural unit

    def _number(self, value: object) -> float:
        dimension = self.dimension
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            raise _refused(f"a number without a unit; accepted: {dimension.accepted}")
        if not isinstance(value, str):
            raise _refused(f"accepted: {dimension.accepted}")
        match = _QUANTITY.fullmatch(value) if len(value) <= 100 else None
        if match is None:
            raise _refused(f"accepted: {dimension.accepted}")
        digits, unit = match.groups()
        if not unit:
            raise _refused(f"a number without a unit; accepted: {dimension.accepted}")
        if unit not in dimension.units:
            hint = closest(unit, dimension.units)
            raise _refused(f"{unit!r} is no unit of {dimension.noun}{hint}; accepted: {dimension.accepted}")
        try:
            return float(Decimal(digits) * dimension.units[unit])
        except decimal.DecimalException:
            raise _refused(f"out of range; accepted: {dimension.accepted}") from None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(
                self.format, return_schema=core_schema.str_schema()
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return self.json_schema()

    def json_schema(self) -> JsonSchemaValue:
        """JSON Schema of the text; it knows the units, not the bounds."""
        units = "|".join(self.dimension.units)
        return {
            "type": "string",
            "pattern": rf"^\s*[+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*(?:{units})\s*$",
            "examples": [self.dimension.example],
        }


def closest(word: str, known: Mapping[str, object] | frozenset[str]) -> str:
    """`` (did you mean 'x'?)`` if a known word resembles this one, else nothing."""
    by_case = [name for name in known if name.lower() == word.lower()]
    matches = by_case or difflib.get_close_matches(word, sorted(known), n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def _refused(text: str) -> PydanticCustomError:
    return PydanticCustomError("quantity", "{text}", {"text": text})


Size = Annotated[float, Quantity(SIZE, most="1 TiB", least="1 B")]  # bytes
Bandwidth = Annotated[float, Quantity(BANDWIDTH, most="1000 TB/s")]  # bytes per second
Frequency = Annotated[float, Quantity(FREQUENCY, most="100 GHz")]  # Hz
DURATION = Quantity(TIME, most="1000 h")
Duration = Annotated[float, DURATION]  # seconds, above zero
Overhead = Annotated[float, Quantity(TIME, most="1000 h", least="0 s")]  # seconds, zero included
Rate = Annotated[float, Quantity(RATE, most="1000000 /s")]  # per second
EnergyPerOperation = Annotated[float, Quantity(ENERGY, most="1000000 pJ", least="0 pJ")]  # pJ
EnergyPerByte = Annotated[
    float, Quantity(ENERGY_PER_BYTE, most="1000000 pJ/B", least="0 pJ/B")
]  # pJ per byte
