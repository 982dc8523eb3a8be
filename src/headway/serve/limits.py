"""How much a single request may ask for before it is refused."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.errors import HeadwayError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request; a request beyond one of them is refused with a 4xx that names it.

    `body_bytes` counts the body as it is sent, and again after it is decompressed; `all_bodies_bytes` is for
    all requests of an HTTP port that are under way. `json_bytes` is a body's JSON
    part alone, which costs far more per byte than binary tensors. `elements` is per tensor, `inputs` counts
    inputs and, separately, outputs asked for. `head_timeout_s` is for a request's head to arrive,
    `body_timeout_s` for its body to arrive or its answer to be taken, `idle_timeout_s` for a connection
    between requests. `streamed_at_once` is how many requests of one gRPC stream may be under way. JSON nests
    at most about 200 deep, which its parser fixes. Raises HeadwayError for a bound that is not positive.
    """

    body_bytes: int = 64 << 20
    all_bodies_bytes: int = 1 << 30
    json_bytes: int = 16 << 20
    elements: int = 1 << 26
    inputs: int = 256
    rank: int = 32
    header_bytes: int = 32 << 10
    head_timeout_s: float = 20.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 120.0
    connections: int = 4096
    streamed_at_once: int = 64

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise HeadwayError(f"limits.{name}: {getattr(self, name)} is not above 0")
