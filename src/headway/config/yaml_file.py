"""YAML files read together with the line on which each value stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from headway.core.errors import HeadwayError

Key = str | int
Place = tuple[Key, ...]

MOST_VALUES = 200_000  # aliases can make a short file expand without end


def place_text(place: Iterable[Key]) -> str:
    """A place as users write it: ``tenants[0].sla``."""
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data, the name it goes by in messages, and the line of each place that came from a file.

    `repeated` says of keys that are given twice, where that is allowed, on which lines; the last counts.
    """

    name: str
    data: Any
    lines: Mapping[Place, int] = field(default_factory=dict)
    repeated: Mapping[Place, str] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """``file:line: place``, with the line of the nearest enclosing value if that place is not there."""
        line = next(
            (self.lines[place[:n]] for n in range(len(place), -1, -1) if place[:n] in self.lines), None
        )
        parts = [self.name if line is None else f"{self.name}:{line}"]
        if place:
            parts.append(place_text(place))
        return ": ".join(parts)


def refuse_repeated(document: Document, but: Callable[[Place], bool] = lambda place: False) -> None:
    """Raise HeadwayError for a key given twice, unless its place is one where the last may count."""
    for place, said in document.repeated.items():
        if not but(place):
            raise HeadwayError(f"{document.name}:{said}")


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core types. YAML 1.1's would read ``no`` as false, 1:30 as 90 and 1e9 as text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own)


for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)$", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+$", list("-+0123456789")),
    ("float", r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", list("-+.")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), _first)


def read_yaml(
    path: Path, name: str | None = None, *, number_keys: bool = False, repeated_keys: bool = False
) -> Document:
    """Read one YAML document. With `number_keys` a key may be a whole number, and becomes its text.

    With `repeated_keys` the last of two equal keys counts, as other readers have it, and the document says
    so. Raises HeadwayError for a file that is missing or not UTF-8, for bad syntax, a key given twice, a key
    that is not text, and tags beyond plain data.
    """
    name = name or str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise HeadwayError(f"{name}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise HeadwayError(f"{name}: {error.strerror or error}") from None
    return parse_yaml(text, name, number_keys=number_keys, repeated_keys=repeated_keys)


def parse_yaml(text: str, name: str, *, number_keys: bool = False, repeated_keys: bool = False) -> Document:
    """The same for text that is already in memory; `name` stands for the file in messages."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise HeadwayError(f"{name}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise HeadwayError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise HeadwayError(f"{name}: not usable YAML: nested too deeply") from None
    if node is None:
        raise HeadwayError(f"{name}: the file is empty")
    return _Builder(loader, name, number_keys, repeated_keys).document(node)


class _Builder:
    """Turns YAML nodes into plain data and notes their lines."""

    def __init__(self, loader: _Loader, name: str, number_keys: bool, repeated_keys: bool) -> None:
        self._loader = loader
        self._key_types = (str, int) if number_keys else str
        self._repeated: dict[Place, str] | None = {} if repeated_keys else None
        self._name = name
        self._lines: dict[Place, int] = {}
        self._values = 0
        self._open: set[int] = set()

    def document(self, node: yaml.Node) -> Document:
        """The whole document under its root node."""
        data = self._value(node, ())
        return Document(self._name, data, self._lines, self._repeated or {})

    def _value(self, node: yaml.Node, place: Place) -> Any:
        if id(node) in self._open:
            raise self._error(node, f"{place_text(place)}: the value contains itself")
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._error(node, f"more than {MOST_VALUES} values")
        self._lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
                return [self._value(child, (*place, index)) for index, child in enumerate(node.value)]
            if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
                return self._mapping(node, place)
        finally:
            self._open.discard(id(node))
        raise self._error(node, f"{place_text(place)}: tag {node.tag!r} is not accepted, only plain YAML")

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(
                self._scalar(key_node, place), self._key_types
            ):
                raise self._error(
                    key_node, f"{place_text(place) or 'file'}: a key that is not text; put it in quotes"
                )
            key = key_node.value
            line = key_node.start_mark.line + 1
            if key in result:
                said = f"{place_text((*place, key))}: key given twice, first on line {first_lines[key]}"
                if self._repeated is None:
                    raise self._error(key_node, said)
                self._repeated[(*place, key)] = f"{line}: {said}"
                self._forget((*place, key))
            first_lines[key] = line
            self._lines[(*place, key)] = line  # the key's line reads better than that of a block below it
            result[key] = self._value(value_node, (*place, key))
        return result

    def _forget(self, place: Place) -> None:
        """Drop the lines of a value that another one takes the place of."""
        for each in [each for each in self._lines if each[: len(place)] == place]:
            del self._lines[each]

    def _scalar(self, node: yaml.ScalarNode, place: Place) -> Any:
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if kind not in ("null", "bool", "int", "float", "str"):
            raise self._error(node, f"{place_text(place)}: tag {node.tag!r} is not accepted, only plain YAML")
        try:
            return self._loader.construct_object(node)
        except ValueError as error:  # a number with an explicit tag, or one of thousands of digits
            raise self._error(node, f"{place_text(place)}: not a usable value: {error}") from None

    def _error(self, node: yaml.Node, message: str) -> HeadwayError:
        return HeadwayError(f"{self._name}:{node.start_mark.line + 1}: {message}")
