"""The head of an HTTP/1.1 request, and the memory for its body."""

from __future__ import annotations

from urllib.parse import unquote

import httptools
import numpy as np

from headway.serve.http_messages import INFERENCE_HEADER

_ALIGNMENT_BYTES = 64


class BadHead(Exception):
    """A request's head that is answered with an error, after which the connection is closed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestHead:
    """What the parser reports of one request; of a chunked one its body, too."""

    def __init__(self, most_body_bytes: int) -> None:
        self._most_body_bytes = most_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._body = bytearray()
        self.raw: list[tuple[bytes, bytes]] = []
        self.headers: dict[str, str] = {}
        self.whole = False
        self.path = ""
        self.query = b""
        self.method = ""
        self.keep_alive = True

    def feed(self, data: bytes) -> None:
        if self.whole:
            return  # what follows a chunked body is not read: its connection is closed after the answer
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BadHead(400, "Upgrade: no other protocol is spoken here") from None
        except httptools.HttpParserCallbackError as error:
            raise (error.__context__ if isinstance(error.__context__, BadHead) else error) from None
        except httptools.HttpParserError as error:
            # The parser's reasons are fixed texts, such as "Invalid character in Content-Length".
            raise BadHead(400, f"the request is not HTTP/1.1 as it is accepted: {error}") from None

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.whole:
            return
        self.raw.append((name.lower(), value))
        text = name.decode("latin-1").lower()
        content = value.decode("latin-1")
        self.headers[text] = f"{self.headers[text]},{content}" if text in self.headers else content

    def on_headers_complete(self) -> None:
        if self.whole:
            return
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            raise BadHead(400, "the request's URL cannot be read") from None
        # An absolute URL may have no path.
        self.path = unquote((url.path or b"/").decode("latin-1"), errors="replace")
        self.query = url.query or b""
        self.method = self._parser.get_method().decode("ascii")
        self.keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if self.whole:
            return
        if len(self._body) + len(data) > self._most_body_bytes:
            raise BadHead(413, f"the body has more than {self._most_body_bytes} bytes, the limit")
        self._body += data

    def on_message_complete(self) -> None:
        self.whole = True

    @property
    def body_bytes(self) -> int:
        """What has arrived of a chunked body."""
        return len(self._body)

    @property
    def chunked(self) -> bool:
        return "transfer-encoding" in self.headers

    def content_length(self) -> int:
        """Of a body that is not chunked, 0 without one. Raises BadHead for no number, or beyond the limit."""
        try:
            length = int(self.headers.get("content-length", "0"))
        except ValueError:
            raise BadHead(400, "Content-Length is not one number") from None
        if length > self._most_body_bytes:
            raise BadHead(413, f"the body has {length} bytes, at most {self._most_body_bytes} are accepted")
        return length

    def body(self) -> memoryview:
        return aligned_copy(self._body, inference_header_of(self.headers))


def inference_header_of(headers: dict[str, str]) -> int:
    """The length of the JSON, for alignment only: 0 where it is missing or wrong, which the codec refuses."""
    text = headers.get(INFERENCE_HEADER, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def aligned_buffer(length: int, head_length: int) -> memoryview:
    """Memory for a body whose byte at `head_length` is aligned."""
    block = np.empty(length + _ALIGNMENT_BYTES, np.uint8)
    start = -(block.ctypes.data + head_length) % _ALIGNMENT_BYTES
    return block.data[start : start + length]


def aligned_copy(data: bytes | bytearray, head_length: int) -> memoryview:
    body = aligned_buffer(len(data), head_length)
    body[:] = data
    return body
