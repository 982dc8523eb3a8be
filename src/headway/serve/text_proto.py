"""Protocol buffers' text format, as far as a model's config.pbtxt needs it, into plain data.

Fields become keys, messages dictionaries. A field that comes several times, or has a list, becomes a list.
Written from the language's specification (protobuf.dev/reference/protobuf/textformat-spec).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headway.core.errors import HeadwayError

MOST_DEPTH: Final = 32

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fF]?(?![A-Za-z_0-9.]))
    |(?P<word>-?[A-Za-z_][A-Za-z0-9_.]*)
    |(?P<sign>[{}\[\]<>:;,])""",
    re.VERBOSE,
)
_CLOSING: Final = {"{": "}", "<": ">"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def parse_text_proto(text: str, where: str) -> dict[str, Any]:
    """The fields of a message. Raises HeadwayError, with its line, for what is no text format."""
    return _Parser(text, where).whole()


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._tokens = list(self._split(text))
        self._at = 0

    def whole(self) -> dict[str, Any]:
        return self._fields("", 0)

    def _split(self, text: str) -> Iterator[_Token]:
        at, line = 0, 1
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise HeadwayError(
                    f"{self._where}:{line}: found {text[at : at + 20]!r}; accepted: text format"
                )
            kind, found = str(match.lastgroup), match.group()
            if kind != "space":
                yield _Token(kind, found, line)
            line += found.count("\n")
            at = match.end()
        yield _Token("end", "", line)

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _is_next(self, *signs: str) -> bool:
        token = self._tokens[self._at]
        return token.kind == "sign" and token.text in signs

    def _error(self, token: _Token, accepted: str) -> HeadwayError:
        found = repr(token.text[:60]) if token.text else "the end"
        return HeadwayError(f"{self._where}:{token.line}: found {found}; accepted: {accepted}")

    def _fields(self, closing: str, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while True:
            token = self._next()
            if token.kind == "end" and not closing:
                return fields
            if token.kind == "sign" and token.text == closing:
                return fields
            if token.kind != "word":
                raise self._error(token, "the name of a field")
            value, listed = self._value_of(token, depth)
            if token.text in fields:
                before = fields[token.text]
                before = before if isinstance(before, list) else [before]
                value = [*before, *(value if listed else [value])]
            fields[token.text] = value
            if self._is_next(",", ";"):
                self._next()

    def _value_of(self, name: _Token, depth: int) -> tuple[Any, bool]:
        """A field's value, and whether it is a list in itself."""
        if self._is_next(":"):
            self._next()
        elif not self._is_next("{", "<", "["):
            raise self._error(self._tokens[self._at], f"':' or '{{' after {name.text}")
        if not self._is_next("["):
            return self._value(depth), False
        self._next()
        values = []
        while not self._is_next("]"):
            values.append(self._value(depth))
            if self._is_next(","):
                self._next()
            elif not self._is_next("]"):
                raise self._error(self._tokens[self._at], "',' or ']'")
        self._next()
        return values, True

    def _value(self, depth: int) -> Any:
        token = self._next()
        if token.kind == "sign" and token.text in _CLOSING:
            if depth >= MOST_DEPTH:
                raise self._error(token, f"at most {MOST_DEPTH} messages within each other")
            return self._fields(_CLOSING[token.text], depth + 1)
        if token.kind == "text":
            text = _unquoted(token.text)
            while self._tokens[self._at].kind == "text":  # texts side by side are one
                text += _unquoted(self._next().text)
            return text
        if token.kind == "number":
            return _number(token.text)
        if token.kind == "word":
            return {"true": True, "false": False}.get(token.text, token.text)
        raise self._error(token, "a value")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _number(text: str) -> int | float:
    if re.fullmatch(r"[-+]?0[xX][0-9a-fA-F]+", text):
        return int(text, 16)
    plain = text.rstrip("fF")
    return int(plain) if re.fullmatch(r"[-+]?\d{1,30}", plain) else float(plain)
