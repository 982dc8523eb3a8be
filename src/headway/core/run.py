"""A run: some blocks of a request on some cores."""

from __future__ import annotations

from dataclasses import dataclass

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.request import Request


@dataclass(slots=True, eq=False)
class Run:
    """What a Dispatch became. Policies read it; only the engine changes it.

    `expected_end_s` and `safe_point_s` are beliefs, revised at every safe point. `spill_bytes` is what a
    stop at a band boundary must write, `bandwidth_bytes_s` the memory traffic it wants per second.
    `extra_dram_bytes` is what the residency ledger adds to the first segment (write-backs of others,
    reloads) or saves (inputs still in SRAM: negative). `stopping` holds how it was asked to stop.
    """

    id: int
    requests: tuple[Request, ...]
    blocks: range
    cores: tuple[Core, ...]
    mode: Mode
    cuts: tuple[int, ...]
    band_rows: int | None
    started_s: float
    expected_end_s: float
    safe_point_s: float
    bandwidth_bytes_s: float
    extra_dram_bytes: float = 0.0
    spill_bytes: float = 0.0
    resumed: float = 0.0
    next_block: int = 0
    stopping: str | None = None
    drop: str | None = None  # set when its request is dropped or cancelled at the next safe point

    @property
    def request(self) -> Request:
        """The first request of the batch."""
        return self.requests[0]
