"""The fastest mapping of a layer, exactly: of all parts of the array, all orders and all places of loops.

The mappings looked at do not depend on how large anything of the hardware is; size only decides which fit.
Nothing is left out but what provably cannot win (branch and bound). So whatever a machine can do a larger one
can do as well, in no more time: more of anything is never slower (docs/costs.md, "What must hold").
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, prod

import numpy as np

from headway.core.hierarchy import Hierarchy
from headway.cost.allocation import choices, combined, without_seams
from headway.cost.arrays import Floats, Longs
from headway.cost.bounds import Bounds, bounds
from headway.cost.candidates import least_top_cycles
from headway.cost.mapping import Costs, Flow
from headway.cost.nest import AT, Batch, Nest
from headway.cost.ordered import Chains, chains_of
from headway.cost.orders import loop_factors
from headway.cost.placed import Placed, Spaces
from headway.cost.subarray import least_cycles, parts
from headway.cost.subsets import LoopSets, OperandSets, operand_sets
from headway.cost.symmetry import is_symmetric
from headway.cost.ways import PortKey, shared_memories, ways_of

_PIECES = 7  # loops that a nest is split into, if it has no more dimensions; up to 5040 orders
_FIRST, _MOST = 16, 256  # orders looked at together: the more the longer it takes
_MOST_COMBINATIONS = 400_000  # of orders and choices at once, to bound memory
_SAME = 1e-11  # relative: sums of other orders differ in their last bits


@dataclass(frozen=True)
class Goal:
    """What is minimised: cycles, then bits at the topmost memory, then pJ.

    Cycles are at least `least_cycles` before what comes at the ends (vector lanes that take that long), and
    at least what `beside_bits` more take of the topmost memory's port.
    """

    least_cycles: float = 0.0
    beside_bits: float = 0.0


ANY = Goal()
"""Nothing beside the nest."""


@dataclass(frozen=True, eq=False)
class Found:
    """A mapping, a batch of one row, and its costs; cycles, those of them at its ends, bits at the topmost
    memory, pJ.
    """

    batch: Batch
    costs: Costs
    cycles: float
    ends: float
    once_bits: float  # the least that any mapping moves
    top_bits: float
    pj: float


def fastest(nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...], goal: Goal) -> Found | None:
    """The fastest mapping, of several the one that moves least at the topmost memory; None if nothing fits.

    Of those that remain on the same part of the array it is the one with the least energy.
    """
    every = parts(nest.sizes, hierarchy)
    once_bits = least_top_cycles(nest, hierarchy) * hierarchy.memories[-1].ports[0].bits
    search = _Search(nest, hierarchy, operands, goal, once_bits)
    search.look_at(search.placed(every[:1]), 0)
    if len(every) > 1:
        sizes = np.array([nest.sizes] * len(every), dtype=np.int64)
        compute = least_cycles(sizes, hierarchy, every).astype(np.float64)
        rest = 1 + np.flatnonzero(search.bound(compute, 0.0)[1:] <= search.cycles * (1 + _SAME))
        if len(rest) and not search.nothing_left(float(search.bound(compute[rest], 0.0).min())):
            placed = search.placed(every[rest])
            bound = search.bound(compute[rest], placed.ends)
            for index in np.argsort(bound, kind="stable").tolist():
                if search.nothing_left(float(bound[index])):
                    break
                search.look_at(placed, index)
    return search.with_less_energy()


@dataclass(frozen=True)
class _Part:
    """A part of the array with all orders of a nest on it, and what each of them costs at least."""

    placed: Placed
    row: int
    loops: tuple[tuple[int, int], ...]
    chains: Chains
    tables: list[OperandSets]
    compute: float
    ends: float
    limit: Bounds
    least: Floats
    ascending: Longs  # orders by these bounds
    at_once: int  # orders to look at together


@dataclass
class _Search:
    """The best mapping so far."""

    nest: Nest
    hierarchy: Hierarchy
    operands: tuple[str, ...]
    goal: Goal
    once_bits: float
    best: Found | None = None
    best_part: _Part | None = None

    @property
    def cycles(self) -> float:
        return self.best.cycles if self.best else np.inf

    def bound(self, compute: Floats, ends: Floats | float) -> Floats:
        """The least cycles with so many of the array: all data pass the topmost port once."""
        once = self.once_bits / self.hierarchy.memories[-1].ports[0].bits
        return self._latency(np.maximum(compute, once), np.full(len(compute), self.once_bits), ends)

    def nothing_left(self, cycles: float) -> bool:
        """Whether mappings that take so many cycles or more are no better, not even in traffic."""
        if self.best is None:
            return False
        if cycles > self.best.cycles * (1 + _SAME):
            return True
        return cycles >= self.best.cycles * (1 - _SAME) and self.best.top_bits <= self.once_bits * (1 + _SAME)

    def placed(self, some: Longs) -> Placed:
        """The nest on parts of the array."""
        spaces = Spaces.of(self.nest, self.hierarchy, some, may_fold=True)
        return Placed(self.nest, self.hierarchy, spaces, ways_of(self.hierarchy, self.operands))

    def look_at(self, placed: Placed, row: int) -> None:
        """All mappings on one part of the array, a row of `placed`."""
        part = self._part(placed, row)
        self._try_all(part, part.ascending, for_energy=False)

    def with_less_energy(self) -> Found | None:
        """The best, or one on the same part of the array with less energy and no more of anything else."""
        if (part := self.best_part) is not None:
            self._try_all(part, part.ascending, for_energy=True)
        return self.best

    def _try_all(self, part: _Part, order: Longs, for_energy: bool) -> None:
        """Orders of the loops one after the other, so many at once as memory is meant for."""
        size = min(_FIRST, part.at_once)
        order = order[self._useful(part, order, for_energy)]
        while len(order):
            self._try(part, order[:size])
            order, size = order[size:], min(4 * size, _MOST, part.at_once)
            if self.nothing_left(float(part.least[order].min(initial=np.inf))) and not for_energy:
                break
            order = order[self._useful(part, order, for_energy)]

    def _part(self, placed: Placed, row: int) -> _Part:
        temporal = tuple(placed.spaces.temporal[row].tolist())
        loops = loop_factors(temporal, _PIECES) or ((0, 1),)
        square = all(temporal[AT[a]] == temporal[AT[b]] for a, b in (("OY", "OX"), ("FY", "FX")))
        chains = chains_of(loops, square and is_symmetric(self.nest, self.hierarchy), self.operands)
        sets = LoopSets(loops)
        tables = [operand_sets(placed, row, way, sets) for way in ways_of(self.hierarchy, self.operands)]
        compute, ends = float(prod(temporal)), float(placed.ends[row])
        limit = bounds(tables, chains, self.hierarchy)
        least = self._latency(np.maximum(limit.port_cycles, compute), limit.top_bits, ends)
        ascending = np.lexsort((limit.pj, _rounded(limit.top_bits), _rounded(least)))
        shared = shared_memories(self.hierarchy, self.operands)
        combinations = 1
        for table in tables:
            levels = sum(position in shared for position in table.levels[:-1])
            combinations *= comb(len(loops) + levels, levels)
        at_once = max(1, _MOST_COMBINATIONS // combinations)
        return _Part(placed, row, loops, chains, tables, compute, ends, limit, least, ascending, at_once)

    def _useful(self, part: _Part, some: Longs, for_energy: bool) -> Longs:
        """Positions of orders that may be better than the best by their bounds."""
        if self.best is None:
            return np.arange(len(some))
        least, bits, pj = part.least[some], part.limit.top_bits[some], part.limit.pj[some]
        less = bits < self.best.top_bits * (1 - _SAME)
        if for_energy:
            less |= (bits <= self.best.top_bits * (1 + _SAME)) & (pj < self.best.pj * (1 - _SAME))
        faster, as_fast = least < self.cycles * (1 - _SAME), least <= self.cycles * (1 + _SAME)
        return np.flatnonzero(faster | (as_fast & less))

    def _latency(self, busy: Floats, bits: Floats, ends: Floats | float) -> Floats:
        cycles: Floats = np.maximum(busy, self.goal.least_cycles) + ends
        if not self.goal.beside_bits:
            return cycles
        return np.maximum(cycles, (bits + self.goal.beside_bits) / self.hierarchy.memories[-1].ports[0].bits)

    def _try(self, part: _Part, rows: Longs) -> None:
        """All distributions of the loops of some orders over the memories."""
        chains = part.chains.some(rows)
        shared = shared_memories(self.hierarchy, self.operands)
        each = [choices(table, chains, self.hierarchy, shared) for table in part.tables]
        every = combined(each, self.hierarchy)
        cycles = self._latency(np.maximum(every.port_cycles, part.compute), every.top_bits, part.ends)
        cycles = np.where(every.fits, cycles, np.inf)
        shape, least = cycles.shape, float(cycles.min())
        if not np.isfinite(least) or least > self.cycles * (1 + _SAME):
            return
        among = np.flatnonzero(cycles <= least * (1 + _SAME))
        bits, pj = (
            np.broadcast_to(values, shape).reshape(-1)[among] for values in (every.top_bits, every.pj)
        )
        first = int(np.lexsort((pj, _rounded(bits)))[0])
        taken = np.unravel_index(int(among[first]), shape)
        found = (float(cycles[taken]), float(bits[first]), float(pj[first]))
        if not self._better(*found):
            return
        order = chains.orders[taken[0]].tolist()
        cuts = {
            table.name: options.cuts_of(int(taken[0]), int(choice))
            for table, options, choice in zip(part.tables, each, taken[1:], strict=True)
        }
        self.best = Found(
            _batch(self.nest, self.operands, part, order, cuts),
            _costs(part, int(rows[taken[0]]), cuts),
            found[0],
            part.ends,
            self.once_bits,
            *found[1:],
        )
        self.best_part = part

    def _better(self, cycles: float, bits: float, pj: float) -> bool:
        best = self.best
        if best is None or cycles < best.cycles * (1 - _SAME):
            return True
        if cycles > best.cycles * (1 + _SAME) or bits > best.top_bits * (1 + _SAME):
            return False
        return bits < best.top_bits * (1 - _SAME) or pj < best.pj


def _batch(
    nest: Nest, operands: tuple[str, ...], part: _Part, order: list[int], cuts: dict[str, list[int]]
) -> Batch:
    """A mapping as a batch of one row, loops over one dimension joined where no memory lies between."""
    loops, joined = without_seams([part.loops[index] for index in order], cuts)
    placed, row = part.placed, slice(part.row, part.row + 1)
    return Batch(
        loops=np.array([[dim for dim, _ in loops]], dtype=np.int64),
        sizes=np.array([[float(size) for _, size in loops]]),
        exact=placed.spaces.exact[row],
        whole=placed.spaces.whole[row],
        strides=np.array([placed.strides], dtype=np.float64),
        limits=placed.limits[row],
        bits=np.array([nest.bits], dtype=np.float64),
        macs=placed.spaces.macs[row],
        operands=operands,
        cuts={name: np.array([values], dtype=np.int64) for name, values in joined.items()},
    )


def _costs(part: _Part, order: int, cuts: dict[str, list[int]]) -> Costs:
    """What `evaluate` says of a mapping, from the tables: the busiest port or the array is the limit."""
    words: dict[Flow, Floats] = {}
    energy: dict[Flow, Floats] = {}
    ports: dict[PortKey, float] = {}
    for table in part.tables:
        kept = part.chains.kept[table.name][order]
        for border, crossing in enumerate(table.crossings):
            cut = cuts[table.name][border - 1] if border else 0
            below = 0 if table.name == "O" and not border else int(kept[cut])
            for passing, busy, instances in crossing.flows:
                ports[passing.key] = ports.get(passing.key, 0.0) + float(busy[below])
                words[passing.flow] = busy[below : below + 1] * instances
                energy[passing.flow] = words[passing.flow] * passing.access_pj
    placed, row = part.placed, slice(part.row, part.row + 1)
    stall = max(0.0, max(ports.values()) - part.compute)
    return Costs(
        np.array([part.compute]),
        np.array([stall]),
        placed.onload[row],
        placed.offload[row],
        placed.spaces.macs[row],
        words,
        energy,
    )


def _rounded(values: Floats) -> Floats:
    """To ten digits: sums of other orders differ in their last bits, which decides nothing."""
    scale = 10.0 ** (10 - np.ceil(np.log10(np.maximum(values, 1e-300))))
    rounded: Floats = np.rint(values * scale) / scale
    return rounded
