"""What Lucas looks up about a model: the runs it may choose from, and the least time they leave."""

from __future__ import annotations

from headway.core.block import Mode, Option
from headway.core.protocols import CostTable, View
from headway.core.request import Request

SERIAL_LENGTHS = (1, 2, 4, 8)
"""How many layers a layer-by-layer run may take at once: up to as many as the longest fused stack."""


class Outlook:
    """Options and remaining times by model and block, computed when first asked for.

    `fuse` and `pipeline` say which modes there are at all; each question says besides whether pipelines
    count, since they need cores that may be taken.
    """

    def __init__(self, *, fuse: bool, pipeline: bool) -> None:
        self._fuse = fuse
        self._pipeline = pipeline
        self._options: dict[tuple[str, int, bool], tuple[Option, ...]] = {}
        self._least: dict[tuple[str, bool], list[float]] = {}
        self._on_kind: dict[tuple[str, int], list[float]] = {}

    def options(self, model: str, table: CostTable, block: int, *, pipelines: bool) -> tuple[Option, ...]:
        """The ways to go on from a block."""
        at = (model, block, pipelines)
        known = self._options.get(at)
        if known is None:
            found = [
                table.option(Mode.SERIAL, block, block + length, (kind,))
                for length in SERIAL_LENGTHS
                if block + length <= table.blocks
                for kind in range(len(table.kinds))
            ]
            if self._fuse:
                found.extend(table.stacks(block))
            if self._pipeline and pipelines:
                found.extend(table.pipelines(block))
            known = self._options[at] = tuple(found)
        return known

    def remaining_s(self, request: Request, view: View, *, pipelines: bool) -> float:
        """Optimistic seconds of work left: the fastest sequence of runs with the whole device to itself."""
        at = (request.model, pipelines)
        least = self._least.get(at)
        if least is None:
            table, bandwidth = view.table(request), view.device.dram_bandwidth_bytes_s
            least = [0.0] * (table.blocks + 1)
            for block in range(table.blocks - 1, -1, -1):
                options = self.options(request.model, table, block, pipelines=pipelines)
                least[block] = min(option.seconds(bandwidth) + least[option.end] for option in options)
            self._least[at] = least
        return least[request.next_block]

    def remaining_on_s(self, request: Request, kind: int, table: CostTable) -> float:
        """Seconds of layer-by-layer work left if all of it ran on one kind of core."""
        at = (request.model, kind)
        sums = self._on_kind.get(at)
        if sums is None:
            sums = [0.0]
            for block in range(table.blocks - 1, -1, -1):
                sums.append(sums[-1] + table.serial_s[block][kind])
            sums.reverse()
            self._on_kind[at] = sums
        return sums[request.next_block]
