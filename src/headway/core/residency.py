"""What lies in each core's SRAM between runs: the ledger behind output retention."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.block import Mode
from headway.core.device import Core, Device
from headway.core.protocols import CostTable
from headway.core.request import Request


class Ledger:
    """Remembers, for each core, the last output that still lies in its SRAM.

    A serial run that starts where a run on the same core just ended finds its input there: the read is
    saved, and the write too if nobody else reads that output. (The write was charged to the earlier run;
    the credit goes to the later one, so that the sum over both is that of one run over the whole range. What
    the later run has no traffic to save with goes to the one after it, if that goes on there too.)
    Any other run on the core overwrites it. Outputs are kept only where they fit beside the next layer's
    working set, which the cost table has checked.
    """

    def __init__(self, device: Device) -> None:
        self._kind_of = device.kind_of
        self._held: list[tuple[int, int, float, float] | None] = [None] * len(device.cores)

    def extra_bytes(
        self, request: Request, table: CostTable, first: int, mode: Mode, cores: Sequence[Core]
    ) -> float:
        """DRAM bytes that starting there adds (positive) or saves (negative)."""
        if mode is not Mode.SERIAL or first == 0:
            return 0.0
        held = self._held[cores[0].index]
        if held is None or held[0] != request.id or held[1] != first:
            return 0.0
        kind = self._kind_of[cores[0].index]
        return held[3] - (table.kept_bytes[first][kind] + table.unwritten_bytes[first - 1][kind])

    def begin(self, cores: Sequence[Core]) -> None:
        """A run starts on these cores: what they held is overwritten."""
        for core in cores:
            self._held[core.index] = None

    def end(
        self,
        request: Request,
        table: CostTable,
        next_block: int,
        cores: Sequence[Core],
        unspent_bytes: float = 0.0,
    ) -> None:
        """A run ended before `next_block`, at a block's end: its output stays if it fits."""
        if len(cores) != 1 or not 0 < next_block < table.blocks:
            return
        index = cores[0].index
        kept = table.kept_bytes[next_block][self._kind_of[index]]
        if kept > 0.0:
            self._held[index] = (request.id, next_block, kept, unspent_bytes)

    def held_bytes(self, core: Core) -> float:
        """Bytes of a core's SRAM that hold a waiting output."""
        held = self._held[core.index]
        return held[2] if held else 0.0
