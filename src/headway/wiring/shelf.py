"""Models that were priced, kept for further scenarios in which they run on the same device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway.core.device import Device
from headway.core.protocols import CostTable

MOST_MODELS: Final = 128


@dataclass(frozen=True, slots=True)
class Priced:
    """A model's cost table, and what was assumed about its file."""

    table: CostTable
    warnings: tuple[str, ...]


class Shelf:
    """Holds the models that were used last. A model file that changes is priced anew."""

    def __init__(self, most: int = MOST_MODELS) -> None:
        self._most = most
        self._models: OrderedDict[tuple[Device, str, Path | None, tuple[int, int]], Priced] = OrderedDict()

    def priced(self, device: Device, model: str, path: Path | None, make: Callable[[], Priced]) -> Priced:
        """A model on a device: what lies here, else what `make` returns. `path` is its file, if any."""
        found = path.stat() if path is not None and path.is_file() else None
        key = (device, model, path, (0, 0) if found is None else (found.st_mtime_ns, found.st_size))
        if key in self._models:
            self._models.move_to_end(key)
        else:
            self._models[key] = make()
            if len(self._models) > self._most:
                self._models.popitem(last=False)
        return self._models[key]
