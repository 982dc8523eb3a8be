"""What each way of running a model's blocks takes at the very least, as arrays.

A run of blocks on some cores lasts at least as long as it would alone, with the factors that truth draws:
`fixed_s + max(factor * work_s, busy_s)`, where `work_s` is the larger of compute and transfer at full
bandwidth and `busy_s` the transfer alone, since the memory never gives more than its bandwidth however
small the factor is. It moves its bytes whatever happens beside it (`headway.sim.truth`).

Serial runs are taken apart into blocks. A block on a core that holds its input reads and writes less, whether
one run goes on or another one starts there (`headway.core.residency`). The ledger credits the write that an
output was spared to the block after it, and what that block cannot use to the one after that. Bytes are
therefore counted as in one run over the whole chain, which is what they add up to, while a block's time is
taken with every credit that could reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from headway.core.bands import in_fixed_bands
from headway.core.block import Mode, Option, Segment
from headway.core.device import Device
from headway.core.protocols import CostTable

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

ALONE: Final = 0
"""Rows of `Chains`: the input comes from DRAM and the output goes there."""
OPENS: Final = 1
"""The output stays for the next block on that core."""
CLOSES: Final = 2
"""The input is there already."""
CONTINUES: Final = 3
"""Both."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Blocks of serial runs: arrays [row, block, kind], a row for each of the four surroundings above.

    `transfer_s` is what the block moves, in seconds of the full bandwidth.
    """

    fixed_s: Floats
    work_s: Floats
    busy_s: Floats
    transfer_s: Floats


@dataclass(frozen=True, slots=True)
class Runs:
    """All other runs that start at one block: arrays [run], `cores` [run, kind] counts cores.

    `left_on` is the kind of core that may hold its output afterwards, -1 if none; `spared_s` is the transfer
    that the next block is then credited for writes, in seconds of the full bandwidth.
    """

    end: Longs
    cores: Floats
    fixed_s: Floats
    work_s: Floats
    transfer_s: Floats
    left_on: Longs
    spared_s: Floats


@dataclass(frozen=True, slots=True)
class Ways:
    """Everything that a cost table offers for a model: serial runs, and by first block all others."""

    blocks: int
    kinds: int
    chains: Chains
    runs: tuple[Runs, ...]


_KNOWN: Final[WeakKeyDictionary[CostTable, dict[bool, tuple[Device, Ways]]]] = WeakKeyDictionary()


def ways_of(table: CostTable, device: Device, *, fixed_bands: bool = False) -> Ways:
    """The ways that a table offers: serial and split runs of any blocks on any cores of the device, and the
    fused stacks and pipelines that it lists, each with the cuts and band height listed there. With
    `fixed_bands` in the fixed number of bands of `headway.core.bands`, too, where that is cheaper in any way.

    They are remembered as long as the table lives.
    """
    known = _KNOWN.setdefault(table, {})
    if fixed_bands in known and known[fixed_bands][0] == device:
        return known[fixed_bands][1]
    splits = list(_split_segments(table, device))
    runs = tuple(_runs_at(table, device, block, splits, fixed_bands) for block in range(table.blocks))
    ways = Ways(table.blocks, len(device.kinds), _chains(table, device), runs)
    known[fixed_bands] = device, ways
    return ways


def _chains(table: CostTable, device: Device) -> Chains:
    bandwidth = device.dram_bandwidth_bytes_s
    shape = (4, table.blocks, len(device.kinds))
    fixed, work, busy, transfer = (np.zeros(shape) for _ in range(4))
    for kind in range(len(device.kinds)):
        unspent = 0.0  # credit that the block before could not use
        for block in range(table.blocks):
            seen = [_serial_segment(table, block, kind, row) for row in range(4)]
            kept = table.kept_bytes[block][kind]
            spared = table.unwritten_bytes[block - 1][kind] if block else 0.0
            credit = kept + spared + unspent
            unwritten = table.unwritten_bytes[block][kind]
            for row in range(4):
                # A run may also end before the block and another one start with it, which pays its dispatch.
                opens = row in (OPENS, CONTINUES)
                possible = [seen[row], seen[ALONE], *([seen[OPENS]] if opens else [])]
                own = seen[row].dram_bytes
                least = own
                if row in (CLOSES, CONTINUES):
                    possible.append(seen[CLOSES])
                    least = max(0.0, seen[ALONE].dram_bytes - credit - (unwritten if opens else 0.0))
                at = row, block, kind
                fixed[at] = min(segment.fixed_s for segment in possible)
                busy[at] = min(least, own) / bandwidth
                work[at] = max(min(segment.compute_s for segment in possible), busy[at])
                transfer[at] = own / bandwidth
            unspent = max(0.0, credit + unwritten - seen[ALONE].dram_bytes)
    return Chains(fixed, work, busy, transfer)


def _serial_segment(table: CostTable, block: int, kind: int, row: int) -> Segment:
    """The block as part of a serial run that begins before it and ends after it, as the row says."""
    first = max(0, block - (row in (CLOSES, CONTINUES)))
    end = min(table.blocks, block + 1 + (row in (OPENS, CONTINUES)))
    return table.segments(table.option(Mode.SERIAL, first, end, (kind,)))[block - first]


def _split_segments(
    table: CostTable, device: Device
) -> Iterator[tuple[tuple[int, ...], tuple[Segment, ...]]]:
    """For every set of two and more cores, by kinds, the blocks of a run over the whole model.

    Every kind comes first once, since the first core's input fills the array.
    """
    for counts in product(*(range(count + 1) for count in device.kind_counts)):
        if sum(counts) < 2:
            continue
        kinds = tuple(kind for kind, count in enumerate(counts) for _ in range(count))
        for first in dict.fromkeys(kinds):
            rest = list(kinds)
            rest.remove(first)
            try:
                option = table.option(Mode.SPLIT, 0, table.blocks, (first, *rest))
            except ValueError:  # not offered
                continue
            yield (first, *rest), tuple(table.segments(option))


def _runs_at(
    table: CostTable,
    device: Device,
    block: int,
    splits: list[tuple[tuple[int, ...], tuple[Segment, ...]]],
    fixed_bands: bool,
) -> Runs:
    bandwidth = device.dram_bandwidth_bytes_s
    kinds = len(device.kinds)
    rows: list[tuple[int, tuple[int, ...], float, float, float, int, float]] = []

    def add(end: int, cores: tuple[int, ...], costs: Option | Segment, left_on: int, spared: float) -> None:
        transfer_s = costs.dram_bytes / bandwidth
        work_s = max(costs.compute_s, transfer_s)
        rows.append((end, cores, costs.fixed_s, work_s, transfer_s, left_on, spared / bandwidth))

    for option in _fused(table, block, fixed_bands):
        add(option.end, option.kinds, option, -1, 0.0)
        if len(option.kinds) == 1 and option.end < table.blocks:
            kind = option.kinds[0]
            add(option.end, option.kinds, option, kind, table.unwritten_bytes[option.end - 1][kind])
    for cores, segments in splits:
        add(block + 1, cores, segments[block], -1, 0.0)
    counts = np.array([[row[1].count(kind) for kind in range(kinds)] for row in rows], dtype=np.float64)
    return Runs(
        end=np.array([row[0] for row in rows], dtype=np.int64),
        cores=counts.reshape(-1, kinds),
        fixed_s=np.array([row[2] for row in rows]),
        work_s=np.array([row[3] for row in rows]),
        transfer_s=np.array([row[4] for row in rows]),
        left_on=np.array([row[5] for row in rows], dtype=np.int64),
        spared_s=np.array([row[6] for row in rows]),
    )


def _fused(table: CostTable, block: int, fixed_bands: bool) -> list[Option]:
    listed = [*table.stacks(block), *table.pipelines(block)]
    if not fixed_bands:
        return listed
    banded = [in_fixed_bands(table, option) for option in listed]
    return listed + [
        fixed
        for fixed, option in zip(banded, listed, strict=True)
        if fixed is not None and not _costs_as_much(fixed, option)
    ]


def _costs_as_much(one: Option, other: Option) -> bool:
    """Whether it takes no less than the other in anything, on the same cores."""
    return (
        one.fixed_s >= other.fixed_s
        and one.compute_s >= other.compute_s
        and one.dram_bytes >= other.dram_bytes
    )
