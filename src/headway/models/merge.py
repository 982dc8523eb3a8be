"""Layers with their cheap followers folded in: the units that an accelerator runs and a scheduler places.

An accelerator applies activations, residual sums, batch normalisation and requantisation to what it
has just computed, on the way out; such a follower then costs its operations but no traffic of its own.
The rule: followers join the layer before them if everything they read comes from that group or is older,
and if of the tensors made inside the group only the last is read outside it. Views disappear: their
readers read what the view shows. A transposition that cannot be a follower joins its only reader, as do
conversions of network inputs.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headway.models.dtypes import bits_of
from headway.models.graph import Graph, Layer, LayerKind, Operand

_MAX_FOLLOWERS: Final = 64  # looked at beyond a layer with several readers, before giving up
_CONVERSIONS: Final = frozenset({"Cast", "QuantizeLinear", "DequantizeLinear"})
_REORDERING: Final = "Transpose"  # done by the addresses that a producer writes to, or a consumer reads from


def merge(graph: Graph) -> Graph:
    """The graph with followers folded into the layers before them.

    Multiply-accumulates, operations, parameters and weight bytes are conserved; activation bytes shrink
    by the tensors that no longer leave a layer. A graph that is merged already comes back as it is.
    """
    if graph.merged:
        return graph
    layers, folded = _without_views(graph.layers)
    group_of = _groups(layers)
    group_of = _with_leading(layers, group_of)
    return replace(graph, layers=_merged(layers, group_of, folded), merged=True)


def is_view(layer: Layer) -> bool:
    """Whether a layer only shows its operands under another shape, side by side, or in part."""
    no_work = not layer.vector_ops and not layer.macs and not layer.params and not layer.weight_bytes
    return layer.kind is LayerKind.MOVE and no_work and bool(layer.operands)


def _without_views(layers: Sequence[Layer]) -> tuple[dict[int, Layer], dict[int, list[str]]]:
    """Layers that are not views, by index, their operands read through views; and names of views by layer."""
    shown: dict[int, tuple[Operand, ...]] = {}
    kept: dict[int, Layer] = {}
    folded: dict[int, list[str]] = {}
    homeless: dict[int, list[str]] = {}  # views of network inputs, to be named at their first reader
    outputs: set[int] = set()
    for layer in layers:
        operands: list[Operand] = []
        names: list[str] = []
        for operand in layer.operands:
            if operand.producer is None or operand.producer not in shown:
                operands.append(operand)
                continue
            names += homeless.pop(operand.producer, [])
            parts = shown[operand.producer]
            for part in parts:
                # One part is all or some of the view's bytes; several lie side by side, each read whole.
                size = operand.bytes if len(parts) == 1 else part.bytes
                row_wise = operand.row_wise and part.row_wise
                operands.append(
                    replace(
                        part,
                        tensor=part.tensor if size >= part.bytes else operand.tensor,
                        bytes=size,
                        rows=operand.rows if row_wise else part.rows,
                        row_wise=row_wise,
                        dtype=operand.dtype,
                    )
                )
        own = tuple(_distinct(operands))
        producers = [operand.producer for operand in own if operand.producer is not None]
        if is_view(layer) and not (layer.is_output and len(producers) < len(own)):
            shown[layer.index] = own
            if producers:
                folded.setdefault(producers[0], []).extend((*names, layer.name))
            else:
                homeless[layer.index] = [*names, layer.name]
            if layer.is_output:
                outputs |= set(producers)
            continue
        kept[layer.index] = replace(layer, operands=own)
        folded.setdefault(layer.index, []).extend(names)
    for index in outputs:
        kept[index] = replace(kept[index], is_output=True)
    return kept, folded


def _distinct(operands: Sequence[Operand]) -> list[Operand]:
    """Operands, each tensor once; parts of one tensor are read together."""
    first: dict[tuple[str, int | None], Operand] = {}
    for operand in operands:
        key = (operand.tensor, operand.producer)
        if key in first:
            known = first[key]
            operand = replace(
                known, bytes=max(known.bytes, operand.bytes), row_wise=known.row_wise and operand.row_wise
            )
        first[key] = operand
    return list(first.values())


def _readers(layers: dict[int, Layer]) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = {index: [] for index in layers}
    for index, layer in layers.items():
        for producer in dict.fromkeys(operand.producer for operand in layer.operands):
            if producer is not None:
                readers[producer].append(index)
    return readers


def _elements(size: int, dtype: str) -> int:
    return size * 8 // bits_of(dtype)


def _may_follow(layer: Layer, inside: set[int], older: Container[int]) -> bool:
    """Whether a layer can be applied to a group's result on its way out."""
    if layer.bounded or (layer.kind is not LayerKind.ELEMENTWISE and layer.op != _REORDERING):
        return False
    producers = [operand.producer for operand in layer.operands if operand.producer is not None]
    if any(producer not in inside and producer not in older for producer in producers):
        return False
    size = _elements(layer.output_bytes, layer.output_dtype)
    return any(
        operand.producer in inside and _elements(operand.bytes, operand.dtype) == size
        for operand in layer.operands
    )


def _groups(layers: dict[int, Layer]) -> dict[int, int]:
    """For each layer the first layer of its group; groups are in topological order of their first layers."""
    readers = _readers(layers)
    group_of: dict[int, int] = {}
    for head in layers:
        if head in group_of:
            continue
        inside = {head}
        committed = {head}
        waiting = list(readers[head])
        heapq.heapify(waiting)
        seen = set(waiting)
        while waiting and len(inside) - len(committed) < _MAX_FOLLOWERS:
            index = heapq.heappop(waiting)
            if index in group_of or not _may_follow(layers[index], inside, group_of):
                continue
            inside.add(index)
            for reader in readers[index]:
                if reader not in seen:
                    seen.add(reader)
                    heapq.heappush(waiting, reader)
            hidden = inside - {index}
            if all(not layers[i].is_output and inside.issuperset(readers[i]) for i in hidden):
                committed = set(inside)
        group_of.update(dict.fromkeys(committed, head))
    return group_of


def _with_leading(layers: dict[int, Layer], group_of: dict[int, int]) -> dict[int, int]:
    """Groups that only convert network inputs, or only transpose, join their only reader."""
    result = dict(group_of)
    readers = _readers(layers)
    members: dict[int, list[int]] = {}
    for index, head in group_of.items():
        members.setdefault(head, []).append(index)
    for head in sorted(members, reverse=True):  # readers first, so that chains end where the last one does
        group = members[head]
        operands = [operand for index in group for operand in layers[index].operands]
        from_inputs = all(operand.producer is None or operand.producer in group for operand in operands)
        allowed = _CONVERSIONS | {_REORDERING} if from_inputs else {_REORDERING}
        if any(layers[index].op not in allowed or layers[index].is_output for index in group):
            continue
        outside = {result[reader] for index in group for reader in readers[index]} - {head}
        if len(outside) == 1:
            target = outside.pop()
            result.update(dict.fromkeys(group, target))
    return result


def _merged(
    layers: dict[int, Layer], group_of: dict[int, int], folded: dict[int, list[str]]
) -> tuple[Layer, ...]:
    members: dict[int, list[Layer]] = {}
    for index in sorted(group_of):
        members.setdefault(group_of[index], []).append(layers[index])
    position = {head: number for number, head in enumerate(sorted(members))}
    barred = {head for head, group in members.items() if _mixes_rows(head, group)}
    result = []
    for head in sorted(members):
        group = members[head]
        core, tail = layers[head], group[-1]
        inner = {layer.index for layer in group}
        ahead = {layer.index: layer for layer in group if layer.index < head}
        operands = [
            replace(
                operand,
                producer=None if operand.producer is None else position[group_of[operand.producer]],
                row_wise=operand.row_wise
                and (operand.producer is None or group_of[operand.producer] not in barred),
                at_output=operand.at_output or layer.index > head,
            )
            for layer in group
            if layer.index >= head
            for read in layer.operands
            for operand in _through(read, ahead)
            if operand.producer not in inner
        ]
        weighted = [layer for layer in (core, *group) if layer.weight_bytes]
        names = [name for layer in group if layer.index != head for name in (layer.name, *layer.folded)]
        names += [name for layer in group for name in folded.get(layer.index, ())]
        result.append(
            replace(
                core,
                index=position[head],
                macs=sum(layer.macs for layer in group),
                vector_ops=sum(layer.vector_ops for layer in group),
                params=sum(layer.params for layer in group),
                weight_bytes=sum(layer.weight_bytes for layer in group),
                weight_dtype=weighted[0].weight_dtype if weighted else core.weight_dtype,
                operands=tuple(_distinct(operands)),
                output=tail.output,
                output_bytes=tail.output_bytes,
                output_rows=core.output_rows if head in barred else tail.output_rows,
                output_dtype=tail.output_dtype,
                is_output=any(layer.is_output for layer in group),
                bounded=any(layer.bounded for layer in group),
                folded=(*core.folded, *names),
            )
        )
    return tuple(result)


def _through(operand: Operand, ahead: Mapping[int, Layer]) -> Iterator[Operand]:
    """What an operand comes from, if layers that joined ahead of their reader make it."""
    if operand.producer is None or operand.producer not in ahead:
        yield operand
        return
    for source in ahead[operand.producer].operands:
        yield from _through(replace(source, row_wise=source.row_wise and operand.row_wise), ahead)


def _mixes_rows(head: int, group: Sequence[Layer]) -> bool:
    """Whether a follower needs all of the group's rows before its first; then the group's readers do too."""
    inner = {layer.index for layer in group}
    return any(
        operand.producer in inner and not operand.row_wise
        for layer in group
        if layer.index > head
        for operand in layer.operands
    )
