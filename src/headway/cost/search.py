"""The best mappings of one layer on one core, or the cost of a mapping that is given.

For a whole graph at once, and without DRAM, see `oncore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from headway.core.errors import HeadwayError
from headway.core.hierarchy import OPERANDS, Hierarchy
from headway.cost.arrays import Longs
from headway.cost.candidates import Candidates, candidates
from headway.cost.fastest import ANY, Found, Goal, fastest
from headway.cost.mapped import LoopsByLevel, MappedLayer, checked_loops, mapped_layer
from headway.cost.mapping import Overlap, evaluate
from headway.cost.nest import AT, Nest, batch_of, spread


def map_layer(
    nest: Nest,
    hierarchy: Hierarchy,
    mapping: LoopsByLevel | None = None,
    overlap: Overlap = "physical",
    operands: tuple[str, ...] = OPERANDS,
    goal: Goal = ANY,
) -> MappedLayer:
    """The given mapping evaluated exactly, or the fastest; of equally fast ones the one that moves least.

    Then the one with the least energy. More of anything is never slower, nor does it move more unless it is
    faster (`fastest`). With `overlap="zigzag"` the search and its choice are the peer's, which fills memories
    as far as they go; `mapping_front` may have faster ones by its rule. `goal` adds what the layer does
    beside the nest. `mapping_front` has compromises. The hierarchy ends with DRAM if loads and stores of the
    layer are to be counted. Raises HeadwayError if the mapping is not one of this nest, or if nothing fits.
    """
    if mapping is None:
        if overlap == "zigzag":
            return _peers(nest, hierarchy, operands)
        return _fastest(nest, hierarchy, operands, goal)
    spreading = spread(nest, hierarchy)
    loops = checked_loops(nest, spreading, hierarchy, mapping, operands)
    order = np.array([[AT[dim] for dim, _ in loops] or [0]], dtype=np.int64)
    sizes = np.array([[float(size) for _, size in loops] or [1.0]])
    batch = batch_of([nest], [spreading], [order], [sizes], operands)
    cuts = {
        operand: np.cumsum([[len(level) for level in mapping[operand]]], axis=1)[:, :-1]
        for operand in operands
    }
    batch = replace(batch, cuts=cuts)
    return mapped_layer(evaluate(batch, hierarchy, overlap), 0, batch, hierarchy, nest)


def _fastest(nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...], goal: Goal) -> MappedLayer:
    """The best mapping for a goal: that without one, where what lies beside the nest changes nothing.

    So it is if the nest alone takes as long, or moves no more than any mapping has to.
    """
    found = _found(nest, hierarchy, operands, ANY)
    beside = (found.top_bits + goal.beside_bits) / hierarchy.memories[-1].ports[0].bits
    as_long = beside <= found.cycles or found.top_bits <= found.once_bits
    if not as_long or goal.least_cycles > found.cycles - found.ends:
        found = _found(nest, hierarchy, operands, goal)
    return _mapped(nest, hierarchy, found)


@lru_cache(maxsize=4096)
def _found(nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...], goal: Goal) -> Found:
    if (found := fastest(nest, hierarchy, operands, goal)) is None:
        raise _nothing_fits(hierarchy)
    return found


@lru_cache(maxsize=4096)
def _mapped(nest: Nest, hierarchy: Hierarchy, found: Found) -> MappedLayer:
    return mapped_layer(found.costs, 0, found.batch, hierarchy, nest)


def _nothing_fits(hierarchy: Hierarchy) -> HeadwayError:
    return HeadwayError(
        "no mapping fits: the array's own data are more than the memories "
        f"{', '.join(memory.name for memory in hierarchy.memories)} hold"
    )


@lru_cache(maxsize=4096)
def _peers(nest: Nest, hierarchy: Hierarchy, operands: tuple[str, ...]) -> MappedLayer:
    """The fastest of the mappings that the peer looks at, by its rule."""
    return _best(candidates(nest, hierarchy, "zigzag", operands), nest, hierarchy)[0]


@lru_cache(maxsize=4096)
def mapping_front(
    nest: Nest,
    hierarchy: Hierarchy,
    overlap: Overlap = "physical",
    operands: tuple[str, ...] = OPERANDS,
) -> tuple[MappedLayer, ...]:
    """The mappings found than which no other is as fast and moves as little at the topmost memory.

    The fastest first, which by hardware is that of `map_layer`; then whatever was found that moves less, the
    one with the least traffic last. Of several with the same of both the one with the least energy. With
    `overlap="zigzag"` lowest memories may hold less than they could, which the peer does not look at: by its
    rule a core waits until they are full. Raises HeadwayError if nothing fits.
    """
    tried = candidates(nest, hierarchy, overlap, operands)
    if overlap == "zigzag":
        tried += [less for each in tried for less in each.with_less_below()]
    elif (found := fastest(nest, hierarchy, operands, ANY)) is not None:
        tried.append(Candidates.given(found.batch, np.ones(1, dtype=bool), hierarchy, overlap))
    return _best(tried, nest, hierarchy)


def _best(tried: Sequence[Candidates], nest: Nest, hierarchy: Hierarchy) -> tuple[MappedLayer, ...]:
    if not any(each.fits.any() for each in tried):
        raise _nothing_fits(hierarchy)
    return tuple(
        mapped_layer(tried[group].costs, row, tried[group].batch, hierarchy, nest)
        for group, row in _front(tried).tolist()
    )


def _front(tried: Sequence[Candidates]) -> Longs:
    """[mapping]: group and row of the mappings that no other one dominates, ascending in latency."""
    group = np.concatenate([np.full(len(each.latency), index) for index, each in enumerate(tried)])
    row = np.concatenate([np.arange(len(each.latency)) for each in tried])
    latency = np.concatenate([each.latency for each in tried])
    traffic = np.concatenate([each.traffic_bits for each in tried])
    fits = np.flatnonzero(np.isfinite(latency))
    # Sums of other orders differ in their last bits, which decides nothing.
    latency, traffic = _rounded(latency[fits]), _rounded(traffic[fits])
    energy = np.concatenate([each.costs.memory_pj for each in tried])[fits]
    order = np.lexsort((energy, traffic, latency))
    sorted_traffic = traffic[order]
    least = np.concatenate(([np.inf], np.minimum.accumulate(sorted_traffic)[:-1]))
    kept = fits[order[sorted_traffic < least]]
    return np.stack((group[kept], row[kept]), axis=1)


def _rounded(values: Any) -> Any:
    """To ten digits."""
    scale = 10.0 ** (10 - np.ceil(np.log10(np.maximum(values, 1e-300))))
    return np.rint(values * scale) / scale
