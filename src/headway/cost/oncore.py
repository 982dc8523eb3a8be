"""Cycles and energy of many nests inside a core, without DRAM: what tables of costs are made of.

The topmost memory of each operand holds whatever it is given; that it does not is the business of the DRAM
traffic (`layer`, `fused`), which a table counts and times apart. So more SRAM or DRAM bandwidth changes
nothing here, and more ports, units or clock only shorten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import LOOP_DIMS, Hierarchy, Memory, Move, Port
from headway.cost.arrays import Floats, Longs
from headway.cost.mapping import evaluate
from headway.cost.nest import AT, DIMS, Batch, spreads, touched
from headway.cost.orders import allocated, block_orders, without
from headway.cost.subarray import (
    columns_of,
    folded,
    full,
    is_product,
    next_least_cycles,
    ordered_parts,
)

_STRIDES, _LIMITS, _BITS = DIMS, DIMS + 4, DIMS + 6  # where the columns of a nest's row begin
_NO_LIMIT = 1 << 40

_ANY_WIDTH = float(1 << 40)
_MOST_ROWS = 40_000  # of one evaluation, to bound memory
_AT_ONCE = 64  # parts of the array tried before looking which are still of use


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

    Where the array is what limits, fewer units cannot be faster; parts are tried where a port does, those
    with the fewest iterations first, until the rest cannot be faster than what is found.
    """
    inside = unbounded(hierarchy)
    cycles, energy = _fastest(rows, inside, full(inside, len(rows)))
    sizes = rows[:, :DIMS]
    least_of_parts = next_least_cycles(sizes, inside)
    waiting = np.flatnonzero(cycles > least_of_parts)
    left = {int(row): ordered_parts(sizes[row], inside) for row in waiting}
    while left:
        tried: list[Longs] = []
        of: list[int] = []
        for row in list(left):
            bounds, factors = left[row]
            useful = (bounds < cycles[row]) & (bounds >= least_of_parts[row])
            if not useful.any():
                del left[row]
                continue
            bounds, factors = bounds[useful], factors[useful]
            tried.append(factors[:_AT_ONCE])
            of += [row] * len(tried[-1])
            left[row] = (bounds[_AT_ONCE:], factors[_AT_ONCE:])
        if not of:
            break
        at = np.array(of)
        found, spent = _fastest(rows[at], inside, np.concatenate(tried))
        for row, time, pj in zip(of, found.tolist(), spent.tolist(), strict=True):
            if time < cycles[row]:
                cycles[row], energy[row] = time, pj
    if np.isinf(cycles).any():
        raise HeadwayError(
            "no mapping fits a core: one unit's data are more than its memories "
            f"{', '.join(memory.name for memory in hierarchy.memories)} hold"
        )
    return cycles, energy


def _fastest(rows: Longs, hierarchy: Hierarchy, factors: Longs) -> tuple[Floats, Floats]:
    """Cycles and pJ of the fastest mapping of each row on its part of the array."""
    found = np.zeros((2, len(rows)))
    grouped = rows[:, AT["G"]] > 1
    for has_groups in (False, True):
        orders = block_orders(has_groups)
        chosen = np.flatnonzero(grouped == has_groups)
        step = max(1, _MOST_ROWS // len(orders))
        for start in range(0, len(chosen), step):
            some = chosen[start : start + step]
            found[:, some] = _evaluated(rows[some], orders, hierarchy, factors[some])
    return found[0], found[1]


def _evaluated(rows: Longs, orders: Longs, hierarchy: Hierarchy, factors: Longs) -> tuple[Floats, Floats]:
    sizes = folded(rows[:, :DIMS], columns_of(hierarchy, factors))
    exact, whole, temporal = spreads(sizes, hierarchy, factors)
    orders = without(orders, np.asarray((temporal > 1).any(axis=0)))
    count, tried = len(rows), len(orders)
    strides = rows[:, _STRIDES:_LIMITS].astype(np.float64)
    extent = sizes.astype(np.float64)
    # Rows of a product that became a map have all of that map as their input.
    fetched = np.where(is_product(rows)[:, None], _NO_LIMIT, rows[:, _LIMITS:_BITS])
    limits = np.stack(
        [
            np.minimum(
                fetched[:, axis],
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
        sizes=temporal[:, orders].reshape(count * tried, -1).astype(np.float64),
        exact=repeated(exact),
        whole=repeated(whole),
        strides=repeated(strides),
        limits=repeated(limits),
        bits=repeated(np.repeat(rows[:, _BITS:].astype(np.float64), 3, axis=1)),
        macs=repeated(np.prod(extent, axis=1)),
        operands=("O", "W", "I"),
        cuts={},
    )
    batch, fits = allocated(batch, hierarchy, twice=True)
    costs = evaluate(batch, hierarchy)
    latency = np.where(fits, costs.latency, np.inf).reshape(count, tried)
    fastest = latency <= latency.min(axis=1, keepdims=True) * (1 + 1e-12)
    energy = np.where(fastest, costs.memory_pj.reshape(count, tried), np.inf)
    best = np.argmin(energy, axis=1)
    return latency.min(axis=1), energy[np.arange(count), best]


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
