"""A graph's layers as columns of numbers, so that costs are computed for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from headway.core.device import Core, Dataflow
from headway.cost.arrays import Bools as Bools
from headway.cost.arrays import Floats as Floats
from headway.cost.arrays import Longs as Longs
from headway.cost.dataflow import array_accesses, ceil_div, systolic_steps
from headway.cost.nest import AT
from headway.cost.oncore import nest_row, oncore_costs
from headway.cost.operands import main_rows, operand_bytes
from headway.models.graph import Graph, Layer, LayerKind

_GEMM_KINDS = (LayerKind.CONV, LayerKind.MATMUL, LayerKind.RECURRENT)


@dataclass(frozen=True, slots=True)
class Shapes:
    """Columns with one entry per layer, in graph order.

    A layer with multiply-accumulates is `products` matrix products M x K x N that run one after the other:
    one per group of a convolution, one per batch item where both factors are activations, one per row of a
    recurrent layer (its steps depend on each other; rows of one step could share the array, so this is an
    upper bound for batches). Batches of a convolution lengthen M. `scale` corrects the nest where the
    counted MACs differ from it (bodies of control flow, transposed convolution); layers that have MACs but
    no nest are bounded by one busy column.

    `held` is what stays while the other operand streams: the weights, or the second activation.
    `main` is what streams through the row window (see `streamed`), `side` all others (each tensor once).
    Bytes are whole-tensor bytes.
    """

    M: Longs
    N: Longs
    K: Longs
    products: Longs
    scale: Floats
    macs: Floats
    bounded: Bools  # MACs without a nest
    recurrent: Bools
    vector_ops: Floats
    weights: Floats
    held: Floats
    main: Floats
    side: Floats
    output: Floats
    rows: Longs  # output rows, the fusion axis
    main_rows: Longs
    kernel: Floats
    stride: Floats
    pad: Floats
    groups: (
        Longs  # rows are that many runs of rows, a head each, whose `kept_maps` differ; 1 if there are none
    )
    cut: Longs  # the loop of the nest that bands cut
    nest: Longs  # [layer, column]: the loops, for cores whose costs come from mappings (see `oncore`)
    repeats: Longs  # how many such nests run one after the other

    def __len__(self) -> int:
        return len(self.M)

    def take(self, layers: Longs) -> Shapes:
        """The columns of these layers, in this order."""
        return Shapes(**{field.name: getattr(self, field.name)[layers] for field in fields(self)})

    @property
    def traffic_once(self) -> Floats:
        """Bytes if every tensor crosses the memory interface once."""
        return self.held + self.main + self.side + self.output

    @property
    def main_row_bytes(self) -> Floats:
        return self.main / self.main_rows

    @property
    def side_row_bytes(self) -> Floats:
        return self.side / self.rows

    @property
    def output_row_bytes(self) -> Floats:
        return self.output / self.rows

    @property
    def line_rows(self) -> Floats:
        """Input rows that one band shares with the next: kernel minus stride."""
        return np.maximum(0.0, self.kernel - self.stride)

    @property
    def kept_maps(self) -> Floats:
        """Bytes of activations that stay while the other factor of a product streams."""
        return self.held - self.weights

    def band_rows(self, bands: Longs) -> Longs:
        """Rows of a band when a layer is computed in that many; `bands` has the layers in its last axis.

        Rows in groups (the heads of attention) are cut so that no band has a part of two: in whole groups,
        or in as many bands each.
        """
        whole = self.rows // self.groups * np.ceil(self.groups / bands).astype(np.int64)
        part = ceil_div(self.rows // self.groups, np.maximum(1, bands // self.groups))
        plain = np.ceil(self.rows / bands).astype(np.int64)
        grouped: Longs = np.where(bands <= self.groups, whole, part)
        return np.where(self.groups > 1, grouped, plain)

    def kept_rows(self, bands: Longs) -> Floats:
        """The share of `kept_maps` that must be there for a band and the next."""
        groups: Floats = 2.0 * np.ceil(self.groups / bands)
        return np.where(bands > 1, np.minimum(1.0, groups / self.groups), 1.0)

    def band_cycles(self, core: Core, bands: Longs) -> Floats:
        """Cycles of each whole layer on the core when it is computed in that many bands.

        `bands` broadcasts against the layers in its last axis. A band has `band_rows` rows, the last one what
        is left; every band pays the array's fill and skew again. The elementary operations of a layer (its
        folded followers) run on the way out of the array, so a band takes the larger of the two. At least one
        cycle: nothing is free.
        """
        # Groups are products of their own: a band costs as a part of one, and as often as there are groups.
        bands = np.where(self.groups > 1, np.maximum(1, bands // self.groups), bands)
        height = np.ceil(self.rows // self.groups / bands).astype(np.int64) * self.groups
        count = ceil_div(self.rows, height)
        last = self.rows - (count - 1) * height
        steps = (count - 1) * self._band_steps(core, height) + self._band_steps(core, last)
        cycles: Floats = np.maximum(1.0, steps - self._uncounted(core))
        return cycles

    def overlapping_cycles(self, core: Core, band_rows: Longs, new_rows: Longs, bands: Longs) -> Floats:
        """Cycles of each layer in `bands` bands of which band_rows - new_rows rows overlap with neighbours.

        The first and the last band overlap on one side only.
        """
        edges, edge_rows = _edges(band_rows, new_rows, bands)
        steps = edges * self._band_steps(core, edge_rows) + (bands - edges) * self._band_steps(
            core, band_rows
        )
        cycles: Floats = np.maximum(1.0, steps - self._uncounted(core))
        return cycles

    def overlapping_rows(self, band_rows: Longs, new_rows: Longs, bands: Longs) -> Longs:
        """Rows of each layer that such bands make in all; never fewer than there are."""
        edges, edge_rows = _edges(band_rows, new_rows, bands)
        return np.maximum(self.rows, edges * edge_rows + (bands - edges) * band_rows)

    def _uncounted(self, core: Core) -> Bools:
        """The last step of a systolic array, which SCALE-Sim does not count."""
        return (self.macs > 0) & (core.hierarchy is None)

    def _band_steps(self, core: Core, height: Longs) -> Floats:
        if core.hierarchy is None:
            M = ceil_div(self.M * height, self.rows)
            steps_of_one = systolic_steps(M, self.N, self.K, core.rows, core.columns, core.dataflow)
            array = self.products * steps_of_one * self.scale
        else:
            array = self._mapped(core, height)[0]
        bound = self.macs * height / self.rows / core.rows
        array = np.where(self.macs > 0, np.where(self.bounded, bound, array), 0.0)
        vector = self.vector_ops * height / self.rows / core.vector_lanes
        steps: Floats = np.maximum(np.ceil(array), np.ceil(vector))
        return steps

    def _mapped(self, core: Core, height: Longs) -> tuple[Floats, Floats]:
        """Cycles, and pJ of memory accesses, of bands of that many rows on a core with a hierarchy."""
        assert core.hierarchy is not None
        shape = np.broadcast_shapes(height.shape, self.rows.shape)
        rows = np.broadcast_to(self.nest, (*shape, self.nest.shape[1])).copy()
        loop = np.broadcast_to(self.cut, shape)[..., None]
        whole = np.take_along_axis(rows, loop, axis=-1)[..., 0]
        np.put_along_axis(rows, loop, ceil_div(whole * height, self.rows)[..., None], axis=-1)
        cycles, energy = oncore_costs(rows.reshape(-1, rows.shape[-1]), core.hierarchy)
        times = self.repeats * self.scale
        return cycles.reshape(shape) * times, energy.reshape(shape) * times

    def array_pj(self, core: Core, operand_bytes: float) -> Floats:
        """Energy of what crosses between SRAM and the array or vector unit in one inference, and within."""
        nested = (self.macs > 0) & ~self.bounded
        if core.hierarchy is None:
            array = array_accesses(self.M, self.N, self.K, core.rows, core.columns, core.dataflow)
            array_pj = self.products * array * self.scale * operand_bytes * core.sram_energy_pj_per_byte
        else:
            array_pj = self._mapped(core, self.rows)[1]
        crossing = np.where(nested, self.side, self.traffic_once) * core.sram_energy_pj_per_byte
        return np.where(nested, array_pj, 0.0) + crossing

    def array_tile_bytes(self, core: Core, operand_bytes: float) -> Floats:
        """Bytes of the weights that fill the array once; never more than there are.

        Where inputs stay, weights come by a row of units at a time.
        """
        units = core.rows * (1 if core.dataflow is Dataflow.INPUT_STATIONARY else core.columns)
        return np.minimum(self.held, float(units) * operand_bytes)


def _edges(band_rows: Longs, new_rows: Longs, bands: Longs) -> tuple[Longs, Longs]:
    """How many bands overlap on one side only, and the rows of each."""
    return np.minimum(bands, 2), band_rows - (band_rows - new_rows) // 2


def shapes_of(graph: Graph, operand_bits: int = 8) -> Shapes:
    """The columns of a graph. The bits of its elements matter for mappings only."""
    layers = graph.layers
    nests = [_nest(layer) for layer in layers]
    M, N, K, products = (np.array(column, dtype=np.int64) for column in zip(*nests, strict=True))
    macs = np.array([layer.macs for layer in layers], dtype=np.float64)
    has_nest = np.array([layer.kind in _GEMM_KINDS for layer in layers])
    operands = [operand_bytes(layer) for layer in layers]
    held, main, side = (np.array(column, dtype=np.float64) for column in zip(*operands, strict=True))
    nest_macs = M.astype(np.float64) * N * K * products
    return Shapes(
        M=M,
        N=N,
        K=K,
        products=products,
        scale=np.where(macs > 0, macs / nest_macs, 0.0),
        macs=macs,
        bounded=~has_nest,
        recurrent=np.array([layer.kind is LayerKind.RECURRENT for layer in layers]),
        vector_ops=np.array([layer.vector_ops for layer in layers], dtype=np.float64),
        weights=np.array([layer.weight_bytes for layer in layers], dtype=np.float64),
        held=held,
        main=main,
        side=side,
        output=np.array([layer.output_bytes for layer in layers], dtype=np.float64),
        rows=np.array([max(1, layer.output_rows) for layer in layers], dtype=np.int64),
        main_rows=np.array([main_rows(layer) for layer in layers], dtype=np.int64),
        kernel=np.array([max(1, layer.row_kernel) for layer in layers], dtype=np.float64),
        stride=np.array([layer.row_stride for layer in layers], dtype=np.float64),
        pad=np.array([layer.row_pad for layer in layers], dtype=np.float64),
        groups=np.array(_row_groups(layers), dtype=np.int64),
        cut=np.full(len(layers), AT["OY"], dtype=np.int64),
        nest=np.array([nest_row(*_loops(layer), operand_bits) for layer in layers], dtype=np.int64),
        repeats=np.where([layer.kind is LayerKind.RECURRENT for layer in layers], products, 1),
    )


def _nest(layer: Layer) -> tuple[int, int, int, int]:
    """M, N, K and how many such products."""
    if layer.kind not in _GEMM_KINDS:
        return 1, 1, 1, 1
    dims = layer.dims
    m, n, k = max(1, dims.m), max(1, dims.n), max(1, dims.k)
    if layer.kind is LayerKind.RECURRENT:
        return 1, n, k, max(1, dims.B * m)
    if layer.weight_is_activation:
        return m, n, k, max(1, dims.B * dims.groups)
    return max(1, dims.B) * m, n, k, max(1, dims.groups)


def _row_groups(layers: Sequence[Layer]) -> list[int]:
    """Into how many runs of equal length the rows of each layer fall that read different second factors.

    Those of a product of two activations, one for each head and item of the batch, and of what goes on with
    its rows.
    """
    groups: list[int] = []
    for layer in layers:
        products = _nest(layer)[3]
        if layer.weight_is_activation and products > 1 and layer.output_rows == products * layer.dims.m:
            groups.append(products)
            continue
        own = 1
        for operand in layer.operands:
            if (
                operand.producer is not None
                and operand.row_wise
                and operand.rows == layers[operand.producer].output_rows == layer.output_rows
                and (layer.row_kernel, layer.row_stride) == (1, 1.0)
            ):
                own = max(own, groups[operand.producer])
        groups.append(own)
    return groups


def _loops(layer: Layer) -> tuple[dict[str, int], tuple[int, int, int, int], tuple[int, int] | None]:
    """Loop sizes by name; strides and dilations; rows and columns of the input map, if it has any."""
    m, n, k, products = _nest(layer)
    dims = layer.dims
    if layer.kind is LayerKind.CONV:
        sizes = {"B": dims.B, "G": dims.groups, "K": dims.n, "C": dims.C // dims.groups}
        sizes |= {"OY": dims.OY, "OX": dims.OX, "FY": dims.FY, "FX": dims.FX}
        steps = (dims.stride_y, dims.stride_x, dims.dilation_y, dims.dilation_x)
        return sizes, steps, (dims.IY, dims.IX)
    if layer.kind is LayerKind.RECURRENT:
        return {"K": n, "C": k}, (1, 1, 1, 1), None
    return {"G": products, "K": n, "C": k, "OY": m}, (1, 1, 1, 1), None
