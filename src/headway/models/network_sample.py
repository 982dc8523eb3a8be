"""A network of which every node's work and time is known: what predictors of latency learn from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from headway.core.errors import HeadwayError
from headway.models.node_work import NodeWork


@dataclass(frozen=True, slots=True)
class NetworkSample:
    """One measurement with that many threads: each node alone by the profiler, and the whole run."""

    number: int
    family: str
    threads: int
    works: tuple[NodeWork, ...]
    node_s: tuple[float, ...]
    total_s: float

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_line(cls, text: str, where: str) -> NetworkSample:
        """Read what `to_line` wrote. Raises HeadwayError, beginning with `where`, for anything else."""
        from pydantic import ValidationError

        try:
            sample: NetworkSample = _adapter().validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "line"
            raise HeadwayError(f"{where}: {place}: {first['msg']}") from None
        return sample


@lru_cache(maxsize=1)
def _adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(NetworkSample)
