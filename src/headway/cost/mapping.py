"""What temporal mappings cost on a core: latency in terms, words per memory level, energy. All rows at once.

Source: ZigZag's latency model (Mei et al., "A Uniform Latency Model for DNN Accelerators with Diverse
Architectures and Dataflows", DATE 2022) as cost-model.md section 3 has it, with two ways to count the
overlap of loads with computation (docs/costs.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from headway.core.hierarchy import Hierarchy, Memory, Move, Port
from headway.cost.arrays import Floats
from headway.cost.nest import Batch, extents
from headway.cost.operand import OperandData
from headway.cost.ports import Activity, at_ends, onload_cycles, port_busy, port_stall, unhidden

Overlap = Literal["physical", "zigzag"]


class Flow(NamedTuple):
    """Identifies data that pass a memory: operand, level of the operand (0 is the lowest), move."""

    operand: str
    level: int
    move: Move


@dataclass(frozen=True)
class Costs:
    """Costs of the rows of a batch: arrays [n], in cycles and pJ.

    `words` counts accesses of a port's full width per flow, `energy_pj` what they take. The latency is
    compute + stall + onload + offload.
    """

    compute: Floats
    stall: Floats
    onload: Floats
    offload: Floats
    mac_count: Floats
    words: dict[Flow, Floats] = field(default_factory=dict)
    energy_pj: dict[Flow, Floats] = field(default_factory=dict)

    @property
    def latency(self) -> Floats:
        """Cycles from the first word loaded to the last one stored."""
        return self.compute + self.stall + self.onload + self.offload

    @property
    def memory_pj(self) -> Floats:
        """Energy of all memory accesses."""
        return sum(self.energy_pj.values(), np.zeros(len(self.compute)))


def evaluate(batch: Batch, hierarchy: Hierarchy, overlap: Overlap = "physical") -> Costs:
    """The costs of every row. The cuts of the batch must be there, and fit (see `allocation`).

    By default transfers go on beside the computation (memories have room for the next data, see `allocated`),
    so that the busiest port or the array is the limit, and one pass of the array is waited for at either end:
    never faster than the bytes over any port. `overlap="zigzag"` copies the peer: transfers in whole cycles
    that have to keep their windows, a first tile that is loaded before the computation starts, one-shot
    transfers that borrow idle cycles of the port.
    """
    if overlap not in ("physical", "zigzag"):
        raise ValueError(f'overlap is "physical" or "zigzag", not {overlap!r}')
    copied = overlap == "zigzag"
    extent = extents(batch)
    parts = [OperandData.of(batch, hierarchy, operand, copied, extent) for operand in batch.operands]
    total = np.prod(batch.sizes, axis=1)
    if copied:
        _double_buffers(parts, hierarchy)
    flows: dict[Flow, Activity] = {}
    words: dict[Flow, Floats] = {}
    energy: dict[Flow, Floats] = {}
    for part in parts:
        for level, position in enumerate(part.levels):
            memory = hierarchy.memories[position]
            for move, below, partial in part.moves(level):
                flow = Flow(part.name, level, move)
                port = memory.port_of(part.name, move)
                sort = part.windowed if copied else part.streamed
                flows[flow] = sort(level, below, partial, port, total)
                words[flow] = part.words(level, below, partial, port, total)
                writes = move in (Move.FILL, Move.STORE)
                energy[flow] = words[flow] * (memory.write_pj if writes else memory.read_pj)
    stall = np.zeros(len(batch))
    for position, memory in enumerate(hierarchy.memories):
        for port in memory.ports:
            if here := _through(flows, parts, position, port):
                waits = port_stall(here, total) if copied else port_busy(here) - total
                np.maximum(stall, waits, out=stall)
    first: dict[Flow, Floats] = {}
    for position, memory in enumerate(hierarchy.memories):
        for port in memory.ports:
            if ends := _ends(flows, parts, position, port):
                first.update(unhidden(ends, port.bits, total + stall) if copied else at_ends(ends, port.bits))
    onload = onload_cycles(first, _input_links(parts, hierarchy), len(batch))
    offload = _offload(first, parts, len(batch)) + _drain(batch.exact, len(batch), hierarchy)
    return Costs(total, stall, onload, offload, batch.macs, words, energy)


def end_cycles(pass_bits: Mapping[str, Floats], exact: Floats, hierarchy: Hierarchy) -> tuple[Floats, Floats]:
    """On-load and off-load by hardware on parts of an array [part], which are the same in any order.

    `pass_bits` are by operand [level, part] those that one pass of the array takes from a memory or gives to
    it; `exact` are the spatial extents [part, axis, dim].
    """
    first: dict[Flow, Floats] = {}
    parts = [_Way(operand, hierarchy.levels[operand]) for operand in pass_bits]
    for part in parts:
        for level, position in enumerate(part.levels):
            for move in (Move.STORE, Move.DRAIN) if part.name == "O" else (Move.FEED, Move.FILL):
                if level < len(part.levels) - 1 or move in (Move.STORE, Move.FEED):
                    port = hierarchy.memories[position].port_of(part.name, move)
                    first[Flow(part.name, level, move)] = pass_bits[part.name][level] / port.bits
    onload = onload_cycles(first, _input_links(parts, hierarchy), len(exact))
    return onload, _offload(first, parts, len(exact)) + _drain(exact, len(exact), hierarchy)


class _Way(NamedTuple):
    """An operand and its levels, the lowest first."""

    name: str
    levels: tuple[int, ...]


def _double_buffers(parts: list[OperandData], hierarchy: Hierarchy) -> None:
    """Whether each operand can be written at each level while what is there is used.

    It can if the level is at most half full, or if there is as much room left as the operand needs; the
    first operand to take such room has it.
    """
    own: dict[tuple[str, int], Floats] = {}
    full: dict[int, Floats] = {}
    for part in parts:
        for level, position in enumerate(part.levels):
            memory: Memory = hierarchy.memories[position]
            own[part.name, level] = part.effective_bits(level + 1) / memory.bits
            full[position] = full.get(position, np.zeros(len(part.batch))) + own[part.name, level]
    for part in parts:
        part.double = [np.zeros(len(part.batch), dtype=bool)]
        for level, position in enumerate(part.levels):
            half = full[position] <= 0.5
            room = ~half & (own[part.name, level] <= 1 - full[position])
            full[position] = full[position] + np.where(room, own[part.name, level], 0.0)
            part.double.append(half | room)


def _through(
    flows: dict[Flow, Activity], parts: list[OperandData], position: int, port: Port
) -> list[Activity]:
    """What passes a port."""
    found = []
    for part in parts:
        if position in part.levels:
            level = part.levels.index(position)
            for operand, move in port.serves:
                if operand == part.name and (flow := Flow(operand, level, move)) in flows:
                    found.append(flows[flow])
    return found


def _ends(
    flows: dict[Flow, Activity], parts: list[OperandData], position: int, port: Port
) -> dict[Flow, Activity]:
    """What passes a port before the first and after the last operation: all but partial sums on their way."""
    found = {}
    for operand, move in port.serves:
        for part in parts:
            if part.name == operand and position in part.levels:
                flow = Flow(operand, part.levels.index(position), move)
                if flow in flows and not (operand == "O" and move in (Move.FEED, Move.FILL)):
                    found[flow] = flows[flow]
    return found


def _input_links(
    parts: Sequence[OperandData | _Way], hierarchy: Hierarchy
) -> dict[str, list[tuple[Flow, Flow, bool, bool]]]:
    """For each input the transfers between neighbouring levels: both ends, and whether their ports are
    shared by both inputs.
    """
    links: dict[str, list[tuple[Flow, Flow, bool, bool]]] = {}
    for part in parts:
        if part.name == "O":
            continue
        links[part.name] = []
        for level in range(len(part.levels) - 1):
            ends = (Flow(part.name, level, Move.FILL), Flow(part.name, level + 1, Move.FEED))
            shared = [
                {"W", "I"}
                <= {
                    operand
                    for operand, _ in hierarchy.memories[part.levels[flow.level]]
                    .port_of(part.name, flow.move)
                    .serves
                }
                for flow in ends
            ]
            links[part.name].append((*ends, shared[0], shared[1]))
    return links


def _offload(first: dict[Flow, Floats], parts: Sequence[OperandData | _Way], count: int) -> Floats:
    """The last outputs on their way up, level after level."""
    total = np.zeros(count)
    for part in parts:
        if part.name == "O":
            for level in range(len(part.levels) - 1):
                drain, store = Flow("O", level, Move.DRAIN), Flow("O", level + 1, Move.STORE)
                total = total + np.maximum(first[drain], first[store])
    return total


def _drain(exact: Floats, count: int, hierarchy: Hierarchy) -> Floats:
    """Cycles that the last results take through systolic axes: one less than the units in use, per axis."""
    cycles = np.zeros(count)
    for axis in hierarchy.systolic:
        cycles = cycles + np.maximum(0.0, np.ceil(np.prod(exact[:, axis, :], axis=1) - 1e-9) - 1)
    return cycles
