"""ZigZag's mapping files, as far as they say which loops an array unrolls.

A list of entries, one per sort of operator and one named `default` (zigzag/parser/mapping_validator.py).
Cores here unroll the same loops for whatever multiplies and accumulates.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from headway.config.importers.zigzag_memory import OPERANDS, Fields
from headway.config.validation import shown
from headway.config.yaml_file import read_yaml
from headway.core.errors import HeadwayError

_FIELDS: Final = (
    "name", "spatial_mapping", "spatial_mapping_hint", "temporal_ordering", "memory_operand_links",
    "core_allocation",
)  # fmt: skip
_OPERATORS: Final = re.compile(r"default|conv(_?[a-z]+)?|gemm|matmul|qlinear[a-z]+", re.IGNORECASE)
_WITHOUT_ARRAY: Final = re.compile(r"pool|add|mul|simd|relu|softmax|norm|elementwise", re.IGNORECASE)
_LINKS: Final = {ours: theirs for theirs, ours in OPERANDS.items()}


def read_spatial_mapping(path: Path) -> tuple[Fields, tuple[str, ...]]:
    """For each array dimension the loops that it unrolls, unchecked, and what was not read of the file.

    An entry is for a sort of operator, for all (`default`), or for the layer of its name, which is not read.
    Raises HeadwayError for a file that is no mapping, for sorts that unroll different loops, and for
    operands that lie elsewhere than inputs in I1, weights in I2 and outputs in O.
    """
    document = read_yaml(path)
    entries: Any = document.data
    if not isinstance(entries, list) or not entries or not all(isinstance(e, dict) for e in entries):
        raise HeadwayError(
            f"{path}: found {shown(entries)}; accepted: a mapping file of ZigZag, a list of entries"
        )
    chosen: Fields | None = None
    unread: list[str] = []
    layers: list[tuple[str, Fields]] = []
    for position, entry in enumerate(entries):
        fields = Fields(document, (position,), entry)
        fields.only(*_FIELDS)
        name = str(fields.required("name"))
        if _WITHOUT_ARRAY.search(name):
            unread.append(f"entry {name} (such work is done by lanes)")
            continue
        unread += [
            f"{key} of {name}" for key in ("spatial_mapping_hint", "temporal_ordering") if key in entry
        ]
        links = fields.data.get("memory_operand_links", _LINKS)
        if links != _LINKS:
            raise fields.error("memory_operand_links", f"found {shown(links)}; accepted: {shown(_LINKS)}")
        flows = Fields(document, (position, "spatial_mapping"), fields.required("spatial_mapping"))
        if not _OPERATORS.fullmatch(name):
            layers.append((name, flows))
            continue
        if chosen is not None and flows.data != chosen.data:
            raise fields.error(
                "spatial_mapping",
                f"{name} unrolls other loops than an entry before it, which has no counterpart; accepted: "
                "the same for all",
            )
        chosen = chosen or flows
    if chosen is None:
        raise HeadwayError(
            f"{path}: no entry is for what multiplies and accumulates; accepted: one named default"
        )
    for name, flows in layers:
        if flows.data != chosen.data:
            unread.append(f"entry {name} (a layer of this name would unroll other loops)")
    return chosen, tuple(unread)
