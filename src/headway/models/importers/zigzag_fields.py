"""The fields of one layer of a ZigZag workload, checked as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from headway.core.errors import HeadwayError
from headway.models.importers.table import LARGEST_SIZE

_RELATION: Final = re.compile(r"(\w+)=(?:(\d+)\*)?([a-z]\w*)\+(?:(\d+)\*)?([a-z]\w*)")
_REQUIRED: Final = ("id", "operator_type", "equation", "loop_dims", "loop_sizes", "operand_precision")
_FIELDS: Final = (
    *_REQUIRED, "name", "dimension_relations", "operand_source", "pr_loop_dims", "pr_loop_sizes", "padding"
)  # fmt: skip
_DTYPES: Final = {2: "int2", 4: "int4", 8: "int8", 16: "int16", 32: "int32"}


def parsed(path: Path, text: str) -> tuple[Any, list[int]]:
    """Plain data and the line on which each item of its list begins."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise HeadwayError(f"{path}: the file is empty")
        data = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise HeadwayError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, HeadwayError):
            raise
        raise HeadwayError(f"{path}: not valid YAML: {error}") from None
    items = node.value if isinstance(node, yaml.SequenceNode) else []
    return data, [item.start_mark.line + 1 for item in items]


class Fields:
    """One layer's fields, checked as they are read."""

    def __init__(self, where: str, data: object) -> None:
        self._where = where
        if not isinstance(data, dict):
            raise HeadwayError(f"{where}: found {data!r:.60}; accepted: a mapping of fields to values")
        for field in data:
            if field not in _FIELDS:
                raise self.error(str(field), f"has no counterpart; accepted: {', '.join(_FIELDS)}")
        for field in _REQUIRED:
            if field not in data:
                raise self.error(field, "missing, but required")
        self._data = data
        self.id = self._number("id", data["id"], least=0)
        given = data.get("name")
        self.operator = str(data["operator_type"])
        self.name = given if isinstance(given, str) and given else f"{self.operator}_{self.id}"
        self.sizes = self._sizes("loop_dims", "loop_sizes")
        self.widths = {
            str(name): self._number(f"operand_precision.{name}", bits, least=0)
            for name, bits in self._mapping("operand_precision").items()
        }

    def error(self, field: str, message: str) -> HeadwayError:
        return HeadwayError(f"{self._where}, {field}: {message}")

    def text(self, field: str) -> str:
        value = self._data[field]
        if not isinstance(value, str):
            raise self.error(field, f"found {value!r:.60}; accepted: text")
        return re.sub(r"\s+", "", value)

    def relations(self) -> dict[str, tuple[int, str, int, str]]:
        """For each index of the input its window: coefficient and name of both loops."""
        found = {}
        for item in self._list("dimension_relations"):
            match = _RELATION.fullmatch(re.sub(r"\s+", "", str(item)).lower())
            if match is None:
                raise self.error("dimension_relations", f"found {item!r}; accepted: such as ix=2*ox+1*fx")
            index, first, one, second, other = match.groups()
            found[index] = (int(first or 1), one, int(second or 1), other)
        return found

    def dtype(self, *operands: str) -> str:
        """The element type of the first of these operands that has a width."""
        for operand in operands:
            bits = self.widths.get(operand, 0)
            if bits in _DTYPES:
                return _DTYPES[bits]
            if bits:
                accepted = ", ".join(map(str, _DTYPES))
                raise self.error(f"operand_precision.{operand}", f"found {bits}; accepted: {accepted} bits")
        raise self.error(f"operand_precision.{operands[0]}", "missing, or 0 bits")

    def source(self, operand: str, known: Mapping[int, int]) -> int | None:
        """The index of the layer that makes an operand; None if none does."""
        given = self._mapping("operand_source").get(operand)
        if given is None:
            return None
        field = f"operand_source.{operand}"
        source = self._number(field, given, least=0)
        if source == self.id:
            return None
        if source not in known:
            raise self.error(field, f"found {source}; accepted: the id of a layer above, or its own for none")
        return known[source]

    def inputs(self) -> tuple[dict[str, int], dict[str, tuple[int, int]]]:
        """Sizes of the input without padding, and padding before and after, by index; empty if not given."""
        if "pr_loop_dims" not in self._data or self._data["pr_loop_dims"] is None:
            if self._data.get("padding") is not None:
                raise self.error("padding", "without pr_loop_dims it is not said of which index")
            return {}, {}
        names = [str(name).lower() for name in self._list("pr_loop_dims")]
        sizes = self._sizes("pr_loop_dims", "pr_loop_sizes") if self._data.get("pr_loop_sizes") else {}
        pads: dict[str, tuple[int, int]] = {}
        given = self._list("padding")
        if given and len(given) != len(names):
            raise self.error("padding", f"found {len(given)} pairs; accepted: as many as pr_loop_dims has")
        for name, pair in zip(names, given, strict=False):
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.error("padding", f"found {pair!r}; accepted: pairs such as [1, 1]")
            before, after = (self._number("padding", size, least=0) for size in pair)
            pads[name] = before, after
        return sizes, pads

    def _sizes(self, names: str, sizes: str) -> dict[str, int]:
        keys, values = self._list(names), self._list(sizes)
        if len(keys) != len(values):
            raise self.error(sizes, f"found {len(values)} sizes; accepted: {len(keys)}, as {names} has")
        found: dict[str, int] = {}
        for key, value in zip(keys, values, strict=True):
            name = str(key).lower()
            if name in found:
                raise self.error(names, f"{key} is there twice")
            found[name] = self._number(f"{sizes} of {key}", value, least=1)
        return found

    def _list(self, field: str) -> list[Any]:
        value = self._data.get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(field, f"found {value!r:.60}; accepted: a list")
        return value

    def _mapping(self, field: str) -> dict[Any, Any]:
        value = self._data.get(field)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(field, f"found {value!r:.60}; accepted: a mapping of operands to numbers")
        return value

    def _number(self, field: str, value: object, least: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LARGEST_SIZE:
            raise self.error(
                field, f"found {value!r:.60}; accepted: a whole number from {least} to {LARGEST_SIZE}"
            )
        return value
