"""Tensors between two processes: written once into files that both map into memory."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ALIGNMENT_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class Ticket:
    """Where tensors lie: name, element type, shape and offset of each in the file of that name and size.

    `others` are values that cannot lie there (strings, sequences); they travel with the ticket.
    """

    file: str
    size: int
    places: tuple[tuple[str, str, tuple[int, ...], int], ...]
    others: dict[str, Any]


class TensorWriter:
    """Writes tensors into files of a folder, and reuses files that the reader is done with.

    Not for use from several threads at once. Whoever made the folder removes it.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._maps: dict[str, mmap.mmap] = {}
        self._free: list[str] = []
        self._made = 0

    def write(self, tensors: Mapping[str, Any]) -> Ticket:
        """Copy tensors into a file; they may change afterwards."""
        import numpy as np

        arrays: list[tuple[str, Any, int]] = []
        others: dict[str, Any] = {}
        size = 0
        for name, value in tensors.items():
            if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                arrays.append((name, value, size))
                size += -(-value.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
            else:
                others[name] = value
        file = self._take(size) if size else ""
        for _, array, offset in arrays:
            if array.nbytes:
                place = np.frombuffer(self._maps[file], array.dtype, array.size, offset)
                place.reshape(array.shape)[...] = array
        places = tuple((name, array.dtype.str, array.shape, offset) for name, array, offset in arrays)
        return Ticket(file, len(self._maps[file]) if file else 0, places, others)

    def free(self, ticket: Ticket) -> None:
        """The reader needs those tensors no more."""
        if ticket.file:
            self._free.append(ticket.file)

    def _take(self, size: int) -> str:
        """A free file that is large enough, the smallest of them, or a new one."""
        fitting = [file for file in self._free if len(self._maps[file]) >= size]
        if fitting:
            file = min(fitting, key=lambda file: len(self._maps[file]))
            self._free.remove(file)
            return file
        file = f"{self._name}-{self._made}"
        self._made += 1
        self._maps[file] = _map(self._folder / file, size, create=True)
        return file


class TensorReader:
    """Reads tensors where they lie."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._maps: dict[str, mmap.mmap] = {}

    def read(self, ticket: Ticket) -> dict[str, Any]:
        """The tensors, without a copy: they hold until the ticket is freed."""
        import numpy as np

        tensors = dict(ticket.others)
        if ticket.file and ticket.file not in self._maps:
            self._maps[ticket.file] = _map(self._folder / ticket.file, ticket.size, create=False)
        for name, dtype, shape, offset in ticket.places:
            count = int(np.prod(shape, dtype=np.int64))
            flat = (
                np.frombuffer(self._maps[ticket.file], dtype, count, offset)
                if count
                else np.empty(0, dtype=dtype)
            )
            tensors[name] = flat.reshape(shape)
        return tensors


def shared_folder() -> Path | None:
    """Where files stay in memory, or None where the system has no such place (the usual one then serves)."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def _map(path: Path, size: int, *, create: bool) -> mmap.mmap:
    with path.open("x+b" if create else "r+b") as file:
        if create:
            file.truncate(size)
        return mmap.mmap(file.fileno(), size)
