"""Numbers with units: read exactly, written so that they read back the same, refused with the remedy."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from headway.config.quantities import (
    BANDWIDTH,
    ENERGY_PER_BYTE,
    FRACTION,
    FREQUENCY,
    RATE,
    SIZE,
    TIME,
    Dimension,
    Quantity,
)

MOST = {SIZE: "1 TiB", BANDWIDTH: "1000 TB/s", FREQUENCY: "100 GHz", TIME: "1000 h", RATE: "1000000 /s"}


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (SIZE, "2 MiB", 2 * 2**20),
        (SIZE, "2MB", 2e6),
        (BANDWIDTH, " 16  GB/s ", 16e9),
        (BANDWIDTH, "1.5 GiB/s", 1.5 * 2**30),
        (FREQUENCY, "700 MHz", 700e6),
        (FREQUENCY, "7e2 MHz", 700e6),
        (TIME, "20 ms", 0.02),
        (TIME, "+.5 us", 5e-7),
        (TIME, "3. min", 180.0),
        (RATE, "30 fps", 30.0),
        (RATE, "90 /min", 1.5),
    ],
)
def test_value(dimension: Dimension, text: str, value: float) -> None:
    assert Quantity(dimension, most=MOST[dimension]).parse(text) == value


def test_energy_per_bit_is_kept_per_byte() -> None:
    assert Quantity(ENERGY_PER_BYTE, most="1000000 pJ/B").parse("7.5 pJ/bit") == 60.0


def test_percent() -> None:
    assert Quantity(FRACTION, most="99 %").parse("10%") == 0.1


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (2, r'a number without a unit; accepted: a size such as "2 MiB" (units: MiB, KiB, GiB'),
        (2.5, "a number without a unit"),
        ("2", "a number without a unit"),
        ("2 MHz", "'MHz' is no unit of a size; accepted: a size such as"),
        ("2 mib", "'mib' is no unit of a size (did you mean 'MiB'?)"),
        ("two MiB", 'accepted: a size such as "2 MiB"'),
        ("nan MiB", "accepted: a size"),
        ("inf MiB", "accepted: a size"),
        ("1,5 MiB", "is no unit of a size"),
        ("٣ MiB", "accepted: a size"),
        ("", "accepted: a size"),
        ("9" * 200 + " MiB", "accepted: a size"),
        ("0 MiB", "must be greater than 0"),
        ("-1 MiB", "must be greater than 0"),
        ("2 TiB", "must be at most 1 TiB"),
        ("1e999999999 MiB", "out of range"),
        (True, "accepted: a size"),
        (None, "accepted: a size"),
        (["2 MiB"], "accepted: a size"),
    ],
)
def test_refusal_says_what_is_accepted(written: object, message: str) -> None:
    with pytest.raises(PydanticCustomError, match=re.escape(message)):
        Quantity(SIZE, most="1 TiB").parse(written)


def test_zero_is_accepted_where_it_makes_sense() -> None:
    overhead = Quantity(TIME, most="1 h", least="0 s")
    assert overhead.parse("0 us") == 0.0
    with pytest.raises(PydanticCustomError, match="must be at least 0 s"):
        overhead.parse("-1 us")


@pytest.mark.parametrize(
    ("dimension", "value", "text"),
    [
        (SIZE, 384 * 1024, "384 KiB"),
        (SIZE, 2 * 2**20, "2 MiB"),
        (BANDWIDTH, 16e9, "16 GB/s"),
        (TIME, 0.02, "20 ms"),
        (TIME, 1e-6, "1 us"),
        (TIME, 2.0, "2 s"),
        (FREQUENCY, 700e6, "700 MHz"),
        (RATE, 50.0, "50 /s"),
    ],
)
def test_written_as_people_do(dimension: Dimension, value: float, text: str) -> None:
    assert Quantity(dimension, most=MOST[dimension]).format(value) == text


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(list(MOST)), st.floats(min_value=1e-30, max_value=1e6))
def test_what_is_written_reads_back_the_same(dimension: Dimension, value: float) -> None:
    quantity = Quantity(dimension, most=MOST[dimension])
    text = quantity.format(value)
    assert quantity.parse(text) == value
    assert re.search(quantity.json_schema()["pattern"], text)
