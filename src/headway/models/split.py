"""Splitting a model into blocks that can run: at given cuts, or evenly.

chain = split("resnet50.onnx", dims={"batch": 1})
sessions = chain.open(threads=2)
buffers = chain.bind({"image": image})
for block in chain.blocks:
    sessions.run_block(block.index, buffers)     # a safe point after each
results = chain.finish(buffers)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError
from headway.models.block_sessions import BlockModel
from headway.models.boundary_buffers import BufferPlan, plan_buffers
from headway.models.boundary_cost import BoundaryCost, boundary_cost
from headway.models.chain import SplitModel
from headway.models.even import BlockLimits, EvenBlocks, PricedCut, PricedSum, even_blocks
from headway.models.node_times import estimated_node_s, node_s_from_blocks, profiled_node_s
from headway.models.node_work import VIEWS
from headway.models.ordered_graph import OrderedGraph
from headway.models.partition import BlockPart, block_model, content_hash, parts_of
from headway.models.prepared import PreparedModel, prepare
from headway.models.sample_inputs import Inputs
from headway.models.takeovers import sums_of, takeovers
from headway.models.value_types import ValueKind, ValueType

if TYPE_CHECKING:
    from onnx import ModelProto


def split(
    source: str | os.PathLike[str] | ModelProto | PreparedModel,
    cuts: Sequence[int] | None = None,
    *,
    dims: Mapping[str, int] | None = None,
    threads: int = 1,
    limits: BlockLimits | None = None,
    node_s: Sequence[float] | None = None,
    cost: BoundaryCost | None = None,
    optimise: bool = True,
    sample: Inputs | None = None,
    verify: bool = True,
) -> SplitModel:
    """Split a model into blocks: at the given cuts, or evenly.

    Args:
        source: a file, a model in memory, or one that was prepared: `dims` and `optimise` then change
        nothing.
        cuts: positions among the legal ones of the prepared graph (`PreparedModel.cuts`), none for one block;
            None asks for even blocks.
        dims: sizes of symbolic dimensions, as `prepare` takes them.
        threads: intra-op threads for which blocks shall be even.
        limits: how long blocks shall be and what boundaries may cost; 2 ms, 4 ms and 3 % by default.
        node_s: seconds of each node of the prepared graph; measured with ONNX Runtime's profiler by default.
        cost: of a boundary; measured by default.
        optimise: cut the graph as ONNX Runtime optimises it.
        sample: inputs for measuring; made up by default.
        verify: open every block once, to see that ONNX Runtime takes it; who opens them anyway saves that.

    Raises:
        HeadwayError: a model that cannot be read or run, or positions that are not legal.
    """
    if isinstance(source, PreparedModel):
        prepared = source
    else:
        prepared = prepare(source, dims=dims, optimise=optimise, sample=sample)
    if cuts is not None:
        chain = _chain(prepared, cuts, (), "" if cuts else "asked for as one block")
    else:
        prepared, times = _times(prepared, threads, sample) if node_s is None else (prepared, tuple(node_s))
        even = _even(prepared, times, limits, cost or boundary_cost(threads))
        chain = _chain(prepared, even.positions, times, even.reason)
    if not verify:
        return chain
    try:
        chain.open(threads).close()
    except HeadwayError as error:
        # A block of the optimised graph may be refused though the whole was not; the original's blocks are
        # not.
        if not prepared.optimised or isinstance(source, PreparedModel) or cuts is not None:
            raise
        plain = prepare(source, dims=dims, optimise=False, sample=sample)
        note = f"the optimised graph cannot be cut, so the original is: {error}"
        plain = replace(plain, notes=(*plain.notes, note))
        return split(plain, threads=threads, limits=limits, cost=cost, sample=sample)
    return chain


def resplit(
    prepared: PreparedModel,
    first: SplitModel,
    block_s: Sequence[float],
    *,
    threads: int = 1,
    limits: BlockLimits | None = None,
    cost: BoundaryCost | None = None,
    verify: bool = True,
) -> SplitModel:
    """Split evenly again, now with what the blocks of a first even split were measured to take.

    Args:
        prepared: what `first` was made from.
        first: the split whose blocks were measured.
        block_s: measured seconds of each of its blocks.
        threads: with which they were measured.
        limits: as for `split`.
        cost: as for `split`.
        verify: as for `split`.

    Raises:
        HeadwayError: `first` was split at given cuts, or the number of times does not fit it.
    """
    if len(first.node_s) != len(prepared.graph):
        raise HeadwayError(
            f"{first.where}: split at given cuts, so its nodes have no times; accepted: an even split"
        )
    node_s = node_s_from_blocks(first.node_s, first.positions, block_s)
    return split(prepared, node_s=node_s, threads=threads, limits=limits, cost=cost, verify=verify)


def _times(
    prepared: PreparedModel, threads: int, sample: Inputs | None
) -> tuple[PreparedModel, tuple[float, ...]]:
    try:
        return prepared, profiled_node_s(prepared, threads, inputs=sample)
    except HeadwayError as error:
        if sample is not None:
            raise
        # Lengths and the like may have to fit each other, which made-up inputs cannot know.
        note = (
            f"blocks are even by estimate, since made-up inputs do not run ({error}); give dims or a sample"
        )
        return replace(prepared, notes=(*prepared.notes, note)), estimated_node_s(prepared, threads)


def _even(
    prepared: PreparedModel, node_s: Sequence[float], limits: BlockLimits | None, cost: BoundaryCost
) -> EvenBlocks:
    if len(node_s) != len(prepared.graph):
        raise HeadwayError(
            f"node_s has {len(node_s)} times; accepted: one for each of {len(prepared.graph)} nodes"
        )
    # A cut of unknown size counts as much as the widest one that is known, never as nothing.
    widest = max((cut.crossing_bytes or 0 for cut in prepared.cuts), default=0)
    sizes = [widest if cut.crossing_bytes is None else cut.crossing_bytes for cut in prepared.cuts]
    views = _views(prepared)
    priced = []
    for cut, size in zip(prepared.cuts, sizes, strict=True):
        copied = sum(prepared.sizes_bytes.get(name, widest) for name in cut.tensors if name in views)
        overhead_s = cost.overhead_s(size, len(cut.tensors), copied)
        priced.append(PricedCut(cut.position, overhead_s, cost.cold_s(size)))
    sums = [
        PricedSum(
            each.place,
            each.made_at,
            each.last_read_at,
            cost.copy_byte_s * prepared.sizes_bytes.get(each.result, widest),
        )
        for each in sums_of(prepared.graph)
        if each.result not in prepared.graph.outputs  # which is copied in the whole model, too
    ]
    return even_blocks(node_s, priced, limits, sums)


def _views(prepared: PreparedModel) -> set[str]:
    """Tensors that share another one's memory, unless they have to lie in a buffer.

    Cut after one, ONNX Runtime copies; cut before it, the next block does not.
    """
    graph = prepared.graph
    return {
        name
        for node, made in zip(graph.nodes, graph.makes, strict=True)
        if node.op_type in VIEWS and node.domain in ("", "ai.onnx")
        for name in made
    }


def _chain(
    prepared: PreparedModel, cuts: Sequence[int], node_s: tuple[float, ...], reason: str
) -> SplitModel:
    graph, types = prepared.graph, prepared.types
    legal = {cut.position for cut in prepared.cuts}
    for position in cuts:
        if position not in legal:
            raise HeadwayError(
                f"{prepared.where}: no cut is possible at position {position!r}; "
                f"accepted: {', '.join(map(str, sorted(legal))) or 'none'}"
            )
    parts = parts_of(graph, cuts)
    bound = _bound(prepared, parts)
    notes = prepared.notes
    if not bound and len(parts) > 1:
        notes += (
            "strings, optional values, or sequences as inputs or outputs: boundaries go through Python",
        )
    return SplitModel(
        name=prepared.name,
        where=prepared.where,
        content_hash=prepared.content_hash,
        blocks=_blocks(prepared, parts),
        optimised=prepared.optimised,
        bound=bound,
        reason=reason,
        notes=notes,
        inputs=MappingProxyType(prepared.inputs),
        overridable=MappingProxyType({name: types[name] for name in sorted(graph.overridable)}),
        outputs=graph.outputs,
        types=types,
        random_nodes=prepared.random_nodes,
        sample_shapes=prepared.sample_shapes,
        whole=prepared.whole,
        plan=_plan(graph, parts, types) if bound else BufferPlan((), 0),
        node_s=node_s,
        workspace=prepared.workspace,
        constants=MappingProxyType(prepared.constant_outputs()),
        rows=prepared.rows,
    )


def _blocks(prepared: PreparedModel, parts: Sequence[BlockPart]) -> tuple[BlockModel, ...]:
    cuts = {cut.position: cut for cut in prepared.cuts}
    blocks = []
    for index, part in enumerate(parts):
        model = block_model(prepared.graph, part, prepared.file_types)
        digest = content_hash(model, prepared.content_hash)
        path = prepared.workspace.folder / f"block_{digest[:20]}.onnx"
        path.write_bytes(model.SerializeToString())
        cut = cuts.get(part.end)
        blocks.append(
            BlockModel(
                index=index,
                name=f"block {index} of {len(parts)}",
                path=path,
                first_node=part.first,
                end_node=part.end,
                inputs=part.inputs,
                request_inputs=part.request_inputs,
                overridable=part.overridable,
                outputs=part.outputs,
                crossing_bytes=0 if cut is None else cut.crossing_bytes,
                live_bytes=0 if cut is None else cut.live_bytes,
                content_hash=digest,
                ops=tuple(node.op_type for node in prepared.graph.nodes[part.first : part.end]),
            )
        )
    return tuple(blocks)


def _bound(prepared: PreparedModel, parts: Sequence[BlockPart]) -> bool:
    """Whether all boundaries can be OrtValues: strings and optional values cannot, sequences only inside."""
    graph, types = prepared.graph, prepared.types
    ends = [types[name] for name in (*graph.inputs, *graph.overridable, *graph.outputs)]
    crossing = [types[name] for part in parts for name in (*part.inputs, *part.outputs)]
    return all(value.kind is ValueKind.TENSOR for value in ends) and all(
        value.dtype != "string" and value.kind is not ValueKind.OPTIONAL for value in (*ends, *crossing)
    )


def _plan(graph: OrderedGraph, parts: Sequence[BlockPart], types: Mapping[str, ValueType]) -> BufferPlan:
    last = {name: len(parts) for name in graph.outputs}  # results stay until they are fetched
    for index, part in enumerate(parts):
        for name in part.inputs:
            last[name] = max(last.get(name, index), index)
    return plan_buffers(
        [
            (name, types[name], index, last[name])
            for index, part in enumerate(parts)
            for name in part.outputs
            if types[name].bindable
        ],
        takeovers(graph, parts, types),
    )
