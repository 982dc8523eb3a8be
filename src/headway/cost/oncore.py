"""Cycles and energy of many nests inside a core, without DRAM: what tables of costs are made of.

The topmost memory of each operand holds whatever it is given; that it does not is the business of the DRAM
traffic (`layer`, `fused`), which a table counts and times apart. So more SRAM or DRAM bandwidth changes
nothing here, and more ports, units or clock only shorten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, Hierarchy, Memory, Move, Port
from headway.cost.arrays import Bools, Floats, Longs
from headway.cost.mapping import evaluate
from headway.cost.nest import AT, DIMS, Batch, spreads, touched
from headway.cost.orders import allocated, block_orders

_STRIDES, _LIMITS, _BITS = DIMS, DIMS + 4, DIMS + 6  # where the columns of a nest's row begin
_NO_LIMIT = 1 << 40

_ANY_WIDTH = float(1 << 40)
_MOST_ROWS = 40_000  # of one evaluation, to bound memory


@dataclass
class _Known:
    """Nests priced so far on a hierarchy: row of numbers -> cycles, pJ."""

    costs: dict[bytes, tuple[float, float]] = field(default_factory=dict)


@lru_cache(maxsize=64)
def _known(hierarchy: Hierarchy) -> _Known:
    return _Known()


def forget() -> None:
    """Drop all costs found so far, so that the next table is built cold."""
    _known.cache_clear()


def nest_row(
    sizes: Mapping[str, int],
    steps: tuple[int, int, int, int],
    input_map: tuple[int, int] | None,
    bits: int,
) -> tuple[int, ...]:
    """A nest as a row of numbers: loops, strides y and x, dilations y and x, input rows and columns, bits."""
    loops = (max(1, sizes.get(name, 1)) for name in LOOP_DIMS)
    return (*loops, *steps, *(input_map or (_NO_LIMIT, _NO_LIMIT)), bits)


def oncore_costs(nests: Longs, hierarchy: Hierarchy) -> tuple[Floats, Floats]:
    """Cycles and pJ of memory accesses of each row (`nest_row`) under the fastest mapping of those tried."""
    known = _known(hierarchy)
    rows, where = np.unique(np.ascontiguousarray(nests), axis=0, return_inverse=True)
    keys = [row.tobytes() for row in rows]
    missing = [index for index, key in enumerate(keys) if key not in known.costs]
    if missing:
        if len(known.costs) + len(missing) > 200_000:
            known.costs.clear()
            missing = list(range(len(rows)))
        for key, cycles, energy in zip(
            (keys[index] for index in missing),
            *(each.tolist() for each in _best(rows[missing], hierarchy)),
            strict=True,
        ):
            known.costs[key] = (cycles, energy)
    found = np.array([known.costs[key] for key in keys])
    return found[where.ravel(), 0], found[where.ravel(), 1]


def _best(rows: Longs, hierarchy: Hierarchy) -> tuple[Floats, Floats]:
    """The fastest mapping of each row, on the whole array or on a part of it.

    Where the array is what limits, fewer units cannot be faster; they are tried where a port does.
    """
    whole = unbounded(hierarchy)
    cycles, energy, ideal = _fastest(rows, whole, whole)
    sizes = folded(rows[:, :DIMS], whole)
    loops = [name for axis in whole.axes for name, _ in axis]
    several = len(set(loops)) < len(loops)  # then as many cycles can be had with other units
    for part in reduced(whole):
        least = least_cycles(sizes, part)
        waits = np.flatnonzero((least < cycles) & ((least > ideal) | several))
        if not len(waits):
            continue
        tried, spent, _ = _fastest(rows[waits], whole, part)
        better = tried < cycles[waits]
        cycles[waits] = np.where(better, tried, cycles[waits])
        energy[waits] = np.where(better, spent, energy[waits])
    if np.isinf(cycles).any():
        raise HeadwayError(
            "no mapping fits a core: one unit's data are more than its memories "
            f"{', '.join(memory.name for memory in hierarchy.memories)} hold"
        )
    return cycles, energy


def _fastest(rows: Longs, hierarchy: Hierarchy, used: Hierarchy) -> tuple[Floats, Floats, Floats]:
    """Cycles, pJ and the cycles without any wait, of mappings that use that part of the hierarchy."""
    found = np.zeros((3, len(rows)))
    grouped = rows[:, AT["G"]] > 1
    for has_groups in (False, True):
        orders = block_orders(has_groups)
        chosen = np.flatnonzero(grouped == has_groups)
        step = max(1, _MOST_ROWS // len(orders))
        for start in range(0, len(chosen), step):
            part = chosen[start : start + step]
            found[:, part] = _evaluated(rows[part], orders, hierarchy, used)
    return found[0], found[1], found[2]


def _evaluated(
    rows: Longs, orders: Longs, hierarchy: Hierarchy, used: Hierarchy
) -> tuple[Floats, Floats, Floats]:
    sizes = folded(rows[:, :DIMS], used)
    exact, whole, temporal = spreads(sizes, used)
    count, tried = len(rows), len(orders)
    strides = rows[:, _STRIDES:_LIMITS].astype(np.float64)
    extent = sizes.astype(np.float64)
    limits = np.stack(
        [
            np.minimum(
                rows[:, _LIMITS + axis],
                touched(extent[:, AT[out]], extent[:, AT[tap]], strides[:, axis], strides[:, 2 + axis]),
            )
            for axis, (out, tap) in enumerate((("OY", "FY"), ("OX", "FX")))
        ],
        axis=1,
    )

    def repeated(values: Floats) -> Floats:
        return np.repeat(values, tried, axis=0)

    batch = Batch(
        loops=np.tile(orders, (count, 1)),
        sizes=temporal[:, orders].reshape(count * tried, DIMS).astype(np.float64),
        exact=repeated(exact),
        whole=repeated(whole),
        strides=repeated(strides),
        limits=repeated(limits),
        bits=repeated(np.repeat(rows[:, _BITS:].astype(np.float64), 3, axis=1)),
        macs=repeated(np.prod(extent, axis=1)),
        operands=("O", "W", "I"),
        cuts={},
    )
    batch, fits = allocated(batch, used, twice=True)
    costs = evaluate(batch, hierarchy)
    latency = np.where(fits, costs.latency, np.inf).reshape(count, tried)
    fastest = latency <= latency.min(axis=1, keepdims=True) * (1 + 1e-12)
    energy = np.where(fastest, costs.memory_pj.reshape(count, tried), np.inf)
    best = np.argmin(energy, axis=1)
    ideal = np.prod(temporal, axis=1, dtype=np.float64)
    return latency.min(axis=1), energy[np.arange(count), best], ideal


def folded(sizes: Longs, hierarchy: Hierarchy) -> Longs:
    """Matrix products on arrays that unroll output columns: rows become rows and columns of a map."""
    wide = 1
    for axis in hierarchy.axes:
        for name, factor in axis:
            wide *= factor if name == "OX" else 1
    alone: Bools = (sizes[:, AT["OX"]] == 1) & (sizes[:, AT["FX"]] == 1) & (sizes[:, AT["FY"]] == 1)
    columns = np.where(alone, np.minimum(wide, sizes[:, AT["OY"]]), sizes[:, AT["OX"]])
    changed = sizes.copy()
    changed[:, AT["OY"]] = np.where(alone, -(-sizes[:, AT["OY"]] // columns), sizes[:, AT["OY"]])
    changed[:, AT["OX"]] = columns
    return changed


@lru_cache(maxsize=64)
def unbounded(hierarchy: Hierarchy) -> Hierarchy:
    """The hierarchy with topmost memories that hold anything.

    An operand whose topmost memory is that of single units gets one above it that is as fast as it likes.
    """
    axes = tuple(range(len(hierarchy.axes)))
    tops = {operand: hierarchy.memories[levels[-1]] for operand, levels in hierarchy.levels.items()}
    whole = [memory for memory in tops.values() if len(memory.axes) == len(axes)]
    memories = [
        replace(memory, bits=float("inf")) if memory in whole else memory for memory in hierarchy.memories
    ]
    for operand, memory in tops.items():
        if memory not in whole:
            moves = (Move.FEED, Move.STORE) if operand == "O" else (Move.FEED,)
            port = Port(_ANY_WIDTH, 1, tuple((operand, move) for move in moves))
            memories.append(
                Memory(f"beyond {memory.name}", float("inf"), (operand,), (port,), axes, 0.0, 0.0)
            )
    return replace(hierarchy, memories=tuple(memories))


@lru_cache(maxsize=64)
def reduced(hierarchy: Hierarchy) -> tuple[Hierarchy, ...]:
    """Parts of the array to try instead of all of it: fewer units need less at once of what they share.

    Every loop unrolled by its factor, half of it, half of that and so on, in every combination, most units
    first: what a part of the array does is never lost when the array is doubled.
    """
    ladders = [_halves(factor) for axis in hierarchy.axes for _, factor in axis]
    combinations = sorted(product(*ladders), key=prod, reverse=True)[1:]
    return tuple(_unrolled(hierarchy, factors) for factors in combinations)


def _halves(factor: int) -> tuple[int, ...]:
    return (factor, *_halves(factor // 2)) if factor > 1 else (1,)


def _unrolled(hierarchy: Hierarchy, factors: tuple[int, ...]) -> Hierarchy:
    """The same loops with other factors."""
    left = iter(factors)
    return replace(
        hierarchy, axes=tuple(tuple((name, next(left)) for name, _ in axis) for axis in hierarchy.axes)
    )


def least_cycles(sizes: Longs, hierarchy: Hierarchy) -> Floats:
    """A lower bound of each nest's cycles [n]: what the units cannot do at once."""
    factors = dict.fromkeys(LOOP_DIMS, 1)
    for axis in hierarchy.axes:
        for name, factor in axis:
            factors[name] *= factor
    steps = -(-sizes // np.array([factors[name] for name in LOOP_DIMS], dtype=np.int64))
    return np.asarray(np.prod(steps, axis=1, dtype=np.float64))
