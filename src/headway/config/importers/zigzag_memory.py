"""The memories of a ZigZag core, in both forms in which its files give ports.

Up to ZigZag 3.7 a memory has `r_bw`, `w_bw` and per operand a mapping of moves to ports; from 3.8 on it has
a list of ports with their own bandwidths (zigzag/parser/accelerator_validator.py). Sizes and bandwidths
are bits, costs pJ for an access of a port's whole width.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from headway.config.validation import shown
from headway.config.yaml_file import Document, Place
from headway.core.errors import HeadwayError
from headway.core.hierarchy import Memory, Move, Port

OPERANDS: Final = {"I1": "I", "I2": "W", "O": "O"}  # memory_operand_links as ZigZag's own mappings have them
MOVES: Final = {"fh": Move.FILL, "tl": Move.FEED, "fl": Move.STORE, "th": Move.DRAIN}
_FIELDS: Final = ("size", "r_cost", "w_cost", "operands", "ports", "served_dimensions")
_OF_PORTS: Final = ("r_bw", "w_bw", "r_port", "w_port", "rw_port", "min_r_granularity", "min_w_granularity")
_UNREAD: Final = ("area", "latency", "mem_type", "auto_cost_extraction", "force_double_buffering")
_PORT_FIELDS: Final = ("name", "type", "bandwidth_min", "bandwidth_max", "allocation")


class Fields:
    """A mapping in a document, whose fields are checked as they are read."""

    def __init__(self, document: Document, place: Place, data: object) -> None:
        self.document, self.place = document, place
        if not isinstance(data, dict):
            raise self.error("", f"found {shown(data)}; accepted: a mapping of fields to values")
        self.data: dict[str, Any] = data

    def error(self, field: str, message: str) -> HeadwayError:
        """A mistake at a field of this mapping."""
        place = (*self.place, field) if field else self.place
        return HeadwayError(f"{self.document.where(place)}: {message}")

    def only(self, *accepted: str) -> None:
        """Raise HeadwayError for a field that is not among these."""
        for field in self.data:
            if field not in accepted:
                raise self.error(field, f"has no counterpart; accepted: {', '.join(accepted)}")

    def number(self, field: str, *, least: float = 0.0, whole: bool = False) -> float:
        """A number from `least` on. Raises HeadwayError for another, or for none."""
        value = self.required(field)
        kinds = int if whole else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value < 1e18:
            accepted = f"a {'whole ' if whole else ''}number from {least:g} on"
            raise self.error(field, f"found {shown(value)}; accepted: {accepted}")
        return value

    def texts(self, field: str) -> list[str]:
        """A list of texts. Raises HeadwayError for anything else."""
        value = self.required(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(field, f"found {shown(value)}; accepted: a list of names")
        return value

    def required(self, field: str) -> Any:
        """A value. Raises HeadwayError if it is not there."""
        if self.data.get(field) is None:
            raise self.error(field, "missing, but required")
        return self.data[field]


def read_memory(document: Document, place: Place, data: object, dimensions: list[str]) -> Memory:
    """One memory; `dimensions` are the array's, in their order."""
    fields = Fields(document, place, data)
    fields.only(*_FIELDS, *_OF_PORTS, *_UNREAD)
    if fields.data.get("auto_cost_extraction"):
        raise fields.error(
            "auto_cost_extraction", "costs from CACTI have no counterpart; accepted: r_cost and w_cost in pJ"
        )
    operands = []
    for name in fields.texts("operands"):
        if name not in OPERANDS:
            raise fields.error("operands", f"found {name!r}; accepted: {', '.join(OPERANDS)}")
        operands.append(OPERANDS[name])
    served = fields.texts("served_dimensions")
    for name in served:
        if name not in dimensions:
            raise fields.error(
                "served_dimensions", f"found {name!r}; accepted: {', '.join(dimensions)}, those of the array"
            )
    entries = fields.required("ports")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise fields.error("ports", f"found {shown(entries)}; accepted: a list of mappings")
    ports = _own_ports(fields, entries) if any("name" in e for e in entries) else _moves(fields, entries)
    _check_moves(fields, operands, ports)
    return Memory(
        name=str(place[-1]),
        bits=fields.number("size", least=1),
        operands=tuple(operands),
        ports=ports,
        axes=tuple(position for position, name in enumerate(dimensions) if name in served),
        read_pj=fields.number("r_cost"),
        write_pj=fields.number("w_cost"),
    )


def _own_ports(fields: Fields, entries: list[dict[str, Any]]) -> tuple[Port, ...]:
    """Ports that each have a name, a bandwidth, and a list of what passes them.

    What passes two of them passes the last, as for ZigZag (`create_port_allocation`); see `shadowed`.
    """
    ports: list[Port] = []
    for position, entry in enumerate(entries):
        port = Fields(fields.document, (*fields.place, "ports", position), entry)
        port.only(*_PORT_FIELDS)
        serves = []
        for text in port.texts("allocation"):
            match = re.fullmatch(r"\s*(I1|I2|O)\s*,\s*(fh|tl|fl|th)\s*", text)
            if match is None:
                raise port.error("allocation", f"found {text!r}; accepted: such as 'I1, tl'")
            serves.append((OPERANDS[match[1]], MOVES[match[2]]))
        most = port.number("bandwidth_max", least=1, whole=True)
        least = port.number("bandwidth_min", least=1, whole=True)
        ports = [
            replace(earlier, serves=tuple(pair for pair in earlier.serves if pair not in serves))
            for earlier in ports
        ]
        ports.append(Port(most, min(most, least), tuple(dict.fromkeys(serves))))
    return tuple(port for port in ports if port.serves)


def shadowed(data: dict[str, Any]) -> list[str]:
    """Moves that pass two ports of a memory which `read_memory` has read, such as 'O, tl'."""
    named = [entry for entry in data["ports"] if "name" in entry]
    texts = [re.sub(r"\s", "", text) for entry in named for text in entry["allocation"]]
    return [text for text in dict.fromkeys(texts) if texts.count(text) > 1]


def _moves(fields: Fields, entries: list[dict[str, Any]]) -> tuple[Port, ...]:
    """Ports that are named by the moves of each operand, with one bandwidth for reads and one for writes."""
    operands = fields.texts("operands")
    if len(entries) != len(operands):
        raise fields.error(
            "ports", f"found {len(entries)} entries; accepted: {len(operands)}, one for each of operands"
        )
    read, write = (fields.number(name, least=1, whole=True) for name in ("r_bw", "w_bw"))
    grains = {
        way: fields.number(name, least=1, whole=True) if name in fields.data else bits
        for way, name, bits in (("r", "min_r_granularity", read), ("w", "min_w_granularity", write))
    }
    serves: dict[str, list[tuple[str, Move]]] = {}
    for position, (name, entry) in enumerate(zip(operands, entries, strict=True)):
        port = Fields(fields.document, (*fields.place, "ports", position), entry)
        port.only(*MOVES)
        for move in entry:
            label = port.required(move)
            # ZigZag's own files spell a few ports wr_port.
            if not isinstance(label, str) or not re.fullmatch(r"(r|w|rw|wr)_port_[0-9]+", label):
                raise port.error(
                    move, f"found {shown(label)}; accepted: such as r_port_1, w_port_1, rw_port_1"
                )
            label = label.replace("wr_", "rw_")
            serves.setdefault(label, []).append((OPERANDS[name], MOVES[move]))
    ports = []
    for label, served in serves.items():
        ways = {"r": "r", "w": "w"}.get(label.partition("_")[0], "rw")
        bits = {"r": read, "w": write, "rw": min(read, write)}[ways]
        grain = min(grains[way] for way in ways)
        ports.append(Port(bits, min(bits, grain), tuple(served)))
    return tuple(ports)


def _check_moves(fields: Fields, operands: list[str], ports: tuple[Port, ...]) -> None:
    """Every operand needs a way in and a way out, outputs both ways, each through one port."""
    served = [pair for port in ports for pair in port.serves]
    names = {ours: theirs for theirs, ours in OPERANDS.items()}
    for operand, move in served:
        if operand not in operands:
            raise fields.error("ports", f"{names[operand]} is not among the operands of this memory")
        if served.count((operand, move)) > 1:
            raise fields.error("ports", f"{names[operand]} has two ports for one move ({move})")
    for operand in operands:
        for theirs, move in MOVES.items():
            if (operand, move) not in served and (operand == "O" or move in (Move.FILL, Move.FEED)):
                raise fields.error("ports", f"{names[operand]}: missing the port of {theirs}")
