"""What a request asks for besides tensors, in the form that HTTP and gRPC share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headway.serve.tensors import invalid, shown

DEADLINE_HEADER = "headway-deadline-ms"
_MOST_SECONDS = 1e9
_SEQUENCE = ("sequence_id", "sequence_start", "sequence_end")

Parameters = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OutputWish:
    """An output as a client wants it: bytes or JSON values; with `classes` above 0, its best classes."""

    name: str
    binary: bool = False
    classes: int = 0


def checked_parameters(parameters: object, where: str) -> Parameters:
    """Parameters that came as JSON; raises Refusal unless they map names to numbers, strings or booleans."""
    if parameters is None:
        return {}
    if type(parameters) is not dict:
        raise invalid(f"{where}: {shown(parameters)} is not an object")
    for name, value in parameters.items():
        if type(value) not in (bool, int, float, str):
            raise invalid(
                f"{where}: {shown(name)} is {shown(value)}; a number, a string, true or false is accepted"
            )
    return parameters


def flag(parameters: Parameters, name: str, where: str, default: bool) -> bool:
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise invalid(f"{where}: {name} is {shown(value)}, true or false is accepted")
    return value


def whole_number(parameters: Parameters, name: str, where: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise invalid(f"{where}: {name} is {shown(value)}, an integer from 0 to 2**64 - 1 is accepted")
    return value


def timeout_of(
    parameters: Parameters, deadline_header: str | None, grpc_timeout_s: float | None
) -> float | None:
    """The tightest bound on a request's time, in seconds; None without one.

    `timeout` is in microseconds, 0 for none, as in Triton; `deadline_ms` in milliseconds, as a parameter or
    as the header headway-deadline-ms.
    """
    bounds = [] if grpc_timeout_s is None else [max(0.0, grpc_timeout_s)]
    timeout_us = whole_number(parameters, "timeout", "parameters")
    if timeout_us:
        bounds.append(timeout_us * 1e-6)
    if "deadline_ms" in parameters:
        bounds.append(_milliseconds(parameters["deadline_ms"], "parameters: deadline_ms"))
    if deadline_header is not None:
        try:
            bounds.append(_milliseconds(float(deadline_header), DEADLINE_HEADER))
        except ValueError:
            raise invalid(f"{DEADLINE_HEADER}: {shown(deadline_header)} is not a number") from None
    tightest_s = min(bounds, default=math.inf)
    return tightest_s if tightest_s < _MOST_SECONDS else None


def _milliseconds(value: object, where: str) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:  # type: ignore[operator]
        raise invalid(f"{where} is {shown(value)}, a number of milliseconds above 0 is accepted")
    return float(min(value, _MOST_SECONDS * 1e3)) / 1e3  # type: ignore[call-overload]


def priority_of(parameters: Parameters) -> int | None:
    """Importance that grows; the protocol's 1 is the most important, and 0 the default."""
    level = whole_number(parameters, "priority", "parameters")
    return -level if level else None


def refuse_sequences(parameters: Parameters) -> None:
    """Raise Refusal for a part of a sequence: no state is kept between requests here."""
    for name in _SEQUENCE:
        if parameters.get(name):
            raise invalid(
                f"parameters: {name} is {shown(parameters[name])}, but models here keep no state between "
                f"requests; leave it out"
            )


def refuse_shared_memory(parameters: Parameters, where: str) -> None:
    """Raise Refusal for a tensor in shared memory."""
    for name in parameters:
        if name.startswith("shared_memory"):
            raise invalid(f"{where}: {name} is given, but there is no shared memory; send the tensor itself")


def output_wish(name: str, parameters: Parameters, where: str, binary: bool) -> OutputWish:
    """An output asked for by name; `binary` is what holds where its own parameters do not say."""
    refuse_shared_memory(parameters, where)
    classes = whole_number(parameters, "classification", where)
    if classes == 0:
        raise invalid(f"{where}: classification is 0, an integer from 1 is accepted")
    return OutputWish(name, flag(parameters, "binary_data", where, binary), classes or 0)
