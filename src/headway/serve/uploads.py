"""Models that a load request brings with it: checked, laid down for as long as they are loaded, and removed.

As in Triton's model repository extension, parameters named `file:VERSION/FILE` stand in place of the model's
folder for this one load. Nothing is written into the repository.
"""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError
from headway.serve.repository import NAME, Repository
from headway.serve.tensors import invalid, shown

FILE_PREFIX: Final = "file:"
MOST_FILES: Final = 64
_PLACE: Final = re.compile(r"(?:[1-9][0-9]{0,17}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_PIECE: Final = 1 << 20
"""Characters of base64, a multiple of four, that are decoded without letting other threads go on."""


def files_of(parameters: Mapping[str, object]) -> dict[str, bytes]:
    """The files among a load request's parameters, by their place in the model's folder.

    Over HTTP they are base64, over gRPC bytes. Raises Refusal (INVALID) for a place that leads elsewhere, too
    many files, and what is no base64.
    """
    places = [name for name in parameters if name.startswith(FILE_PREFIX)]
    if len(places) > MOST_FILES:
        raise invalid(f"parameters: {len(places)} files; accepted: at most {MOST_FILES}")
    return {_checked_place(name): _decoded(name, parameters[name]) for name in places}


def _checked_place(name: str) -> str:
    place = name.removeprefix(FILE_PREFIX)
    if not _PLACE.fullmatch(place):
        raise invalid(
            f"parameters: {shown(name)}; accepted: file:VERSION/FILE or file:FILE with letters, digits,"
            " '.', '_' and '-', such as file:1/model.onnx"
        )
    return place


def _decoded(name: str, content: object) -> bytes:
    if isinstance(content, bytes):
        return content
    if not isinstance(content, str):
        raise invalid(f"parameters: {shown(name)} is {shown(content)}; accepted: base64, over gRPC bytes")
    try:
        pieces = [
            base64.b64decode(content[at : at + _PIECE], validate=True)
            for at in range(0, len(content), _PIECE)
        ]
    except (binascii.Error, ValueError):
        raise invalid(f"parameters: {shown(name)} is not base64") from None
    return b"".join(pieces)


@contextmanager
def staged(name: str, files: Mapping[str, bytes]) -> Iterator[Repository]:
    """A repository that holds one model, of these files, until this ends.

    Raises HeadwayError for a name that no model may have, and where it cannot be written.
    """
    if not NAME.fullmatch(name):
        raise HeadwayError(f"name: found {shown(name)}; accepted: letters, digits, '.', '_' and '-'")
    with tempfile.TemporaryDirectory(prefix="headway-upload-") as root:
        try:
            for place, content in files.items():
                path = Path(root) / name / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        except OSError as error:
            raise HeadwayError(f"{name}: its files cannot be kept: {error.strerror}") from None
        yield Repository(Path(root))
