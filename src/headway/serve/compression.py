"""gzip and deflate, of bodies that may be bombs and of answers to clients that accept it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from headway.serve.refusal import Cause, Refusal
from headway.serve.tensors import Buffer, invalid, shown

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_FAST = 1  # tensors hardly shrink further at a higher level


def decompressed(data: Buffer, encoding: str, most_bytes: int) -> bytes:
    """A body as it was before gzip or deflate (zlib's form, or raw as some clients send it).

    Stops at the limit, so that a small body cannot claim much memory. Raises Refusal (TOO_LARGE) there, and
    (INVALID) for another encoding or a body that is not in it, or is followed by something else.
    """
    windows = {"gzip": [_GZIP_WINDOW], "deflate": [zlib.MAX_WBITS, -zlib.MAX_WBITS]}.get(encoding)
    if windows is None:
        raise invalid(f"Content-Encoding: {shown(encoding)} is not one of gzip, deflate, identity")
    for window in windows:
        decoder = zlib.decompressobj(window)
        try:
            content = decoder.decompress(data, most_bytes + 1)
        except zlib.error:
            continue
        if len(content) > most_bytes:
            raise Refusal(
                Cause.TOO_LARGE,
                f"the body decompressed is larger than {most_bytes} bytes, the limit",
            )
        if decoder.eof and not decoder.unused_data:
            return content
        break
    raise invalid(f"Content-Encoding: the body is not one whole {encoding} stream")


def accepted_encoding(header: str) -> str | None:
    """The encoding for an answer that an Accept-Encoding header prefers; None to send it as it is."""
    best, best_weight = None, 0.0
    for item in header.lower().split(","):
        name, _, options = item.partition(";")
        name = name.strip()
        if name == "*":
            name = "gzip"
        if name not in ("gzip", "deflate"):
            continue
        try:
            weight = float(options.partition("q=")[2] or 1) if options else 1.0
        except ValueError:
            continue
        if weight > best_weight:
            best, best_weight = name, weight
    return best


def compressed(parts: Sequence[Buffer], encoding: str) -> bytes:
    """The parts as one gzip or deflate (zlib) stream."""
    encoder = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP_WINDOW if encoding == "gzip" else zlib.MAX_WBITS)
    return b"".join([*(encoder.compress(part) for part in parts), encoder.flush()])
