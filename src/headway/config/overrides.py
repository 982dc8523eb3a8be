"""Changes to parts of nested plain data."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from headway.config.validation import shown
from headway.core.errors import HeadwayError


def merged(base: Any, changes: Mapping[str, Any]) -> Any:
    """A copy of `base` with `changes` laid over it; mappings merge key by key, all else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def with_changes(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `data` with the values at some places changed, in the order given.

    A place is keys joined by dots; an item of a list is named by its position or by its `name`, and `*` is
    every item. None takes a key or item away. Raises HeadwayError if a place leads through something that has
    no such item.
    """
    result = copy.deepcopy(dict(data))
    for place, value in changes.items():
        _change(result, place.split("."), value, place)
    return result


def _change(target: Any, keys: Sequence[str], value: Any, place: str) -> None:
    key, *rest = keys
    if key == "*" and isinstance(target, list):
        # From the last on, so that items that are taken away shift none that are still to come.
        for position in reversed(range(len(target))):
            _change(target, [str(position), *rest], copy.deepcopy(value), place)
        return
    item: str | int = key if isinstance(target, dict) else _position(target, key, place)
    if rest:
        inner = target.setdefault(item, {}) if isinstance(target, dict) else target[item]
        _change(inner, rest, value, place)
    elif value is not None:
        target[item] = value
    elif not isinstance(target, dict) or item in target:
        del target[item]


def _position(items: Any, key: str, place: str) -> int:
    if not isinstance(items, list):
        raise HeadwayError(f"change of {place!r}: {key!r} is asked of {shown(items)}, which has no fields")
    names = [str(item["name"]) for item in items if isinstance(item, dict) and "name" in item]
    if key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(items):
        return int(key)
    raise HeadwayError(
        f"change of {place!r}: no item {key!r};"
        f" accepted: {', '.join(names)}, or a position below {len(items)}"
    )
