"""From a walk's entries to the layers of a graph: operands, weights counted once, names, rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headway.models.constants import Root, weight_roots
from headway.models.findings import Entry
from headway.models.graph import Layer, Operand
from headway.models.tensors import Layout, Tensor, usual_layout


class LayerList:
    """Builds layers in order; what later layers say of the rows of earlier ones is settled at the end."""

    def __init__(self, roots: Mapping[str, Root], outputs: Collection[str]) -> None:
        self._roots = roots
        self._outputs = set(outputs)
        self._counted: set[str] = set()
        self._names: set[str] = set()
        self._producers: dict[int, int] = {}  # by identity of the tensor
        self._tensors: dict[int, Tensor] = {}  # main output of each layer
        self._assumed_bytes: dict[int, int] = {}  # of layers none of whose outputs has a known size

    def build(self, entries: Sequence[Entry]) -> tuple[Layer, ...]:
        """All layers, indexed from 0 in the order given."""
        for index, entry in enumerate(entries):
            for tensor in entry.node.outputs:
                if tensor is not None:
                    self._producers[id(tensor)] = index
        drafts = [self._layer(index, entry) for index, entry in enumerate(entries)]
        return tuple(self._with_rows(layer) for layer in drafts)

    @property
    def used_roots(self) -> set[str]:
        """Initialisers that some layer reads."""
        return self._counted

    def _layer(self, index: int, entry: Entry) -> Layer:
        node, work = entry.node, entry.work
        used = weight_roots(node, work)
        roots = [root for root in (*used, *work.extra_roots) if self._roots[root].counted]
        params = sum(self._roots[root].elements for root in dict.fromkeys(roots) if root not in self._counted)
        self._counted |= set(roots)
        made = [tensor for tensor in node.outputs if tensor is not None]
        known = [tensor for tensor in made if tensor.known]
        operands = self._operands(entry)
        output_bytes = sum(tensor.bytes for tensor in known)
        if not known:
            # As large as the largest thing it reads: no better guess, and never nothing.
            output_bytes = max((operand.bytes for operand in operands), default=1)
            self._assumed_bytes[index] = output_bytes
        main = known[0] if known else made[0] if made else None
        if main is not None:
            self._tensors[index] = main
        weights = [self._roots[root] for root in roots]
        return Layer(
            index=index,
            name=self._unique(entry),
            op=node.op,
            kind=work.kind,
            dims=work.dims,
            macs=work.macs,
            vector_ops=work.vector_ops,
            params=params,
            weight_bytes=self._weight_bytes(entry, used),
            operands=operands,
            output=made[0].name if made else "",
            output_bytes=output_bytes,
            output_rows=1,
            output_dtype=(main.stored or main.dtype) if main is not None else "float32",
            weight_dtype=max(weights, key=lambda root: root.bytes).dtype if weights else "float32",
            row_kernel=work.row_kernel,
            row_stride=work.row_stride,
            row_pad=work.row_pad,
            is_output=any(tensor.name in self._outputs for tensor in made),
            bounded=work.bounded,
            weight_is_activation=work.weight_is_activation,
            note=work.note,
        )

    def _weight_bytes(self, entry: Entry, used: Sequence[str]) -> int:
        node = entry.node
        if (
            node.op == "Gather"
            and node.inputs[0] is not None
            and node.inputs[0].constant
            and node.output.known
        ):
            return min(node.output.bytes, sum(self._roots[root].bytes for root in used))
        own = sum(self._roots[root].bytes for root in used if self._roots[root].counted)
        return own + entry.work.extra_weight_bytes

    def _operands(self, entry: Entry) -> tuple[Operand, ...]:
        node, work = entry.node, entry.work
        drawn: dict[int, tuple[Tensor, bool, Layout | None]] = {}
        through = {id(tensor) for position, tensor in node.activations if position not in work.at_output}
        pairs: list[tuple[Tensor, Layout | None]] = [(t, work.wants.get(p)) for p, t in node.activations]
        pairs += [(tensor, None) for tensor in work.captured]
        through |= {id(tensor) for tensor in work.captured}
        for tensor, want in pairs:
            produced = id(tensor) in self._producers
            if want is not None and tensor.layout is None and produced:
                tensor.layout = (
                    want  # made in no particular order of rows: this reader's order is as good as any
                )
            row_wise = want is not None and (tensor.layout == want or not produced)
            if id(tensor) in drawn:
                row_wise = row_wise and drawn[id(tensor)][1]
            drawn[id(tensor)] = (tensor, row_wise, want)
        operands = []
        for tensor, row_wise, want in drawn.values():
            known = tensor.known
            rows = 1
            if known and not tensor.sequence:
                layout = want if row_wise else tensor.layout
                rows = tensor.rows(usual_layout(tensor.sizes) if layout is None else layout)
            operands.append(
                Operand(
                    tensor=tensor.name,
                    bytes=tensor.bytes
                    if known
                    else self._assumed_bytes.get(self._producers.get(id(tensor), -1), 1),
                    rows=rows,
                    producer=self._producers.get(id(tensor)),
                    row_wise=row_wise,
                    dtype=tensor.stored or tensor.dtype,
                    at_output=id(tensor) not in through,
                )
            )
        return tuple(operands)

    def _with_rows(self, layer: Layer) -> Layer:
        tensor = self._tensors.get(layer.index)
        if tensor is None or not tensor.known or tensor.sequence:
            return layer
        layout = usual_layout(tensor.sizes) if tensor.layout is None else tensor.layout
        return replace(layer, output_rows=tensor.rows(layout))

    def _unique(self, entry: Entry) -> str:
        name = entry.name or f"{entry.node.op}_{entry.index}"
        if name in self._names:
            name = f"{name}_{entry.index}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name
