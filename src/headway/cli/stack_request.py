"""A stack of the user's own, as `headway cost` is asked for it: layers and cores by their names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError

if TYPE_CHECKING:
    from headway.core.block import Mode
    from headway.core.device import Device
    from headway.cost.stacks import PricedStack
    from headway.cost.table import Table
    from headway.models.graph import Graph

_MOST_NAMES = 24  # that an error lists


def stack_of(
    graph: Graph, device: Device, table: Table, layers: str, mode: Mode, cores: str | None, rows: int | None
) -> tuple[PricedStack, tuple[str, ...]]:
    """The stack priced, and the cores it runs on, in the order of its stages.

    Raises HeadwayError for layers and cores that are not there, and for a stack that cannot run so, with the
    reason.
    """
    from headway.core.block import Mode
    from headway.cost.stacks import priced

    first, last = layer_range(graph, layers)
    names = core_names(device, cores, mode)
    places = {core.name: core.index for core in device.cores}
    reasons = []
    found = []
    for chosen in [(name,) for name in names] if mode is Mode.FUSED and cores is None else [names]:
        kinds = tuple(device.kind_of[places[name]] for name in chosen)
        try:
            found.append(
                (priced(table, device, table.option(mode, first, last + 1, kinds, (), rows)), chosen)
            )
        except ValueError as error:
            reasons.append(str(error))
    if not found:
        raise HeadwayError(f"--stack {layers}: {'; '.join(dict.fromkeys(reasons))}")
    return min(found, key=lambda each: each[0].seconds)


def layer_range(graph: Graph, layers: str) -> tuple[int, int]:
    """The first and the last layer of FIRST:LAST. A name may have colons in it."""
    splits = [(layers[:at], layers[at + 1 :]) for at, letter in enumerate(layers) if letter == ":"]
    if not splits:
        raise HeadwayError(f"--stack {layers!r}: accepted: FIRST:LAST, two layers by name or number")
    known = [
        (first, last)
        for first, last in splits
        if _layer(graph, first) is not None and _layer(graph, last) is not None
    ]
    for first, last in known or splits[:1]:
        begin, end = _require(graph, first), _require(graph, last)
        if begin < end:
            return begin, end
    raise HeadwayError(
        f"--stack {layers}: layer {end} is not behind layer {begin}; accepted: at least two layers in order"
    )


def _layer(graph: Graph, text: str) -> int | None:
    """The layer with that name, into which one with that name was folded, or at that place."""
    for layer in graph.layers:
        if layer.name == text:
            return layer.index
    for layer in graph.layers:
        if text in layer.folded:
            return layer.index
    if text.isdecimal() and int(text) < len(graph.layers):
        return int(text)
    return None


def _require(graph: Graph, text: str) -> int:
    found = _layer(graph, text)
    if found is None:
        names = [layer.name for layer in graph.layers]
        raise HeadwayError(
            f"--stack: {graph.name} has no layer {text!r}{_near(text, names)}; accepted: {_listed(names)}, "
            f"or a number from 0 to {len(names) - 1}"
        )
    return found


def core_names(device: Device, cores: str | None, mode: Mode) -> tuple[str, ...]:
    """The cores asked for; if none are, those that a mode can take: one of each type, or all."""
    from headway.core.block import Mode

    every = [core.name for core in device.cores]
    if cores is None:
        if mode is Mode.FUSED:
            return tuple(core.name for core in device.exemplars)
        raise HeadwayError(f"--mode {mode} needs --cores NAME,NAME...; {device.name} has {_listed(every)}")
    names = tuple(name.strip() for name in cores.split(","))
    for name in names:
        if name not in every:
            raise HeadwayError(
                f"--cores: {device.name} has no core {name!r}{_near(name, every)}; accepted: {_listed(every)}"
            )
        if names.count(name) > 1:
            raise HeadwayError(f"--cores: {name} is there twice; accepted: each core once")
    return names


def _near(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, names, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: _MOST_NAMES - 1])}, ... {names[-1]} ({len(names)} in all)"
