"""The grammar of MAESTRO's layer tables: networks, their layers, and the sizes of these with their lines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError
from headway.models.importers.table import LARGEST_SIZE

_TOKEN: Final = re.compile(r"//[^\n]*|\s+|[A-Za-z0-9_.'\-]+|[{}:,;()]")
_RATES: Final = frozenset({"FPS", "Probability", "Dependency"})


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    line: int


@dataclass(slots=True)
class TableLayer:
    """A layer's fields, each with its line."""

    name: str
    line: int
    type: Token | None = None
    sizes: dict[str, dict[str, int]] = field(
        default_factory=dict
    )  # of Dimensions, Stride, Dilation and Padding


class Parser:
    """Reads a table from its first token to its last."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._tokens = _tokens(path, text)
        self._next = 0
        self._constants: dict[str, int] = {}
        self._unread: dict[str, set[str]] = {}  # by network, what in it is not read

    def networks(self) -> dict[str, list[TableLayer]]:
        """All layers by network, in the order of the file."""
        found: dict[str, list[TableLayer]] = {}
        while self._next < len(self._tokens):
            token = self._take()
            if token.text == "Constant":
                name = self._take()
                self._skip("=")
                self._constants[name.text] = self._size(self._take(), f"Constant {name.text}")
                self._skip(";")
            elif token.text == "Network":
                name = self._take()
                if name.text in found:
                    raise self._error(name, f"a second network named {name.text!r}")
                self._unread[name.text] = set()
                found[name.text] = self._network(name.text)
            elif token.text == "Accelerator":
                self._skip(":")
                self._block()
            else:
                raise self._error(token, f"found {token.text!r}; accepted: Constant, Network or Accelerator")
        return found

    def warnings(self, network: str) -> list[str]:
        """What of a network was not read, in words."""
        unread = self._unread[network]
        said = []
        if rates := sorted(unread & _RATES):
            said.append(f"{', '.join(rates)} not read: rates and dependencies are a scenario's")
        if "Dataflow" in unread:
            said.append("Dataflow not read: the mapping of a layer follows from the hardware")
        return said

    def _network(self, network: str) -> list[TableLayer]:
        layers: list[TableLayer] = []
        self._skip(":")
        self._expect("{")
        while True:
            token = self._take()
            if token.text == "}":
                return layers
            if token.text == "Layer":
                layers.append(self._layer(network))
            elif token.text in _RATES:
                self._unread[network].add(token.text)
                self._skip(":")
                if self._peek() == "{":
                    self._block()
                else:
                    self._take()
            else:
                raise self._error(
                    token,
                    f"found {token.text!r} in network {network!r}; accepted: Layer, FPS, Probability, "
                    "Dependency",
                )

    def _layer(self, network: str) -> TableLayer:
        name = self._take()
        layer = TableLayer(name.text, name.line)
        self._skip(":")
        self._expect("{")
        while True:
            word = self._take()
            if word.text == "}":
                return layer
            self._skip(":")
            if word.text == "Type":
                layer.type = self._take()
            elif word.text in ("Dimensions", "Stride", "Dilation", "Padding"):
                layer.sizes[word.text] = self._sizes(layer, word)
            elif word.text == "Dataflow":
                self._unread[network].add(word.text)
                self._block()
            else:
                raise self._error(
                    word,
                    f"layer {layer.name!r}: {word.text} has no counterpart; accepted: Type, Stride, "
                    "Dilation, Padding, Dimensions, Dataflow",
                )
            self._skip(",", ";")

    def _sizes(self, layer: TableLayer, group: Token) -> dict[str, int]:
        sizes: dict[str, int] = {}
        self._expect("{")
        while True:
            token = self._take()
            if token.text == "}":
                return sizes
            if token.text in sizes:
                raise self._error(token, f"layer {layer.name!r}: {group.text}.{token.text} given twice")
            self._expect(":")
            place = f"layer {layer.name!r}: {group.text}.{token.text}"
            sizes[token.text] = self._size(self._take(), place, least=0 if group.text == "Padding" else 1)
            self._skip(",", ";")

    def _size(self, token: Token, place: str, least: int = 1) -> int:
        if token.text in self._constants:
            return self._constants[token.text]
        if not re.fullmatch(r"[0-9]{1,9}", token.text) or not least <= int(token.text) <= LARGEST_SIZE:
            raise self._error(
                token,
                f"{place}: found {token.text!r}; accepted: a whole number from {least} to "
                f"{LARGEST_SIZE}, or a Constant",
            )
        return int(token.text)

    def _block(self) -> None:
        """Pass over a block in braces, and whatever blocks are in it."""
        self._expect("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self._take().text, 0)

    def _take(self) -> Token:
        if self._next == len(self._tokens):
            last = self._tokens[-1] if self._tokens else Token("", 1)
            raise self._error(last, "the file ends within a block; a closing brace is missing")
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._next].text if self._next < len(self._tokens) else ""

    def _skip(self, *texts: str) -> None:
        while self._peek() in texts:
            self._next += 1

    def _expect(self, text: str) -> None:
        token = self._take()
        if token.text != text:
            raise self._error(token, f"found {token.text!r}; accepted: {text!r}")

    def _error(self, token: Token, message: str) -> HeadwayError:
        return HeadwayError(f"{self._path}:{token.line}: {message}")


def _tokens(path: Path, text: str) -> list[Token]:
    tokens: list[Token] = []
    place, line = 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise HeadwayError(f"{path}:{line}: found {text[place]!r}, which a layer table does not have")
        if not match[0].isspace() and not match[0].startswith("//"):
            tokens.append(Token(match[0], line))
        line += match[0].count("\n")
        place = match.end()
    return tokens
