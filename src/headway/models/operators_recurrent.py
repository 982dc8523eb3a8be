"""Recurrent operators: one matrix product for each step and direction, with the gates' maps."""

from __future__ import annotations

from typing import Final

from headway.models.graph import LayerKind, LoopDims
from headway.models.operators import Node, Work, formula

_GATES: Final = {"RNN": 1, "GRU": 3, "LSTM": 4}
# Maps an output element of one step needs: gates' sigmoids (4) and tanhs (6), products and sums.
_VECTOR_OPS: Final = {"RNN": 8, "GRU": 24, "LSTM": 34}


@formula("LSTM", "GRU", "RNN")
def recurrent(node: Node) -> Work:
    """MACs = directions x steps x batch x gates x hidden x (input + hidden).

    As a nest: B directions, rows (OY) steps x batch, C input + hidden, K gates x hidden.
    """
    x, w, r = node.input(0).sizes, node.input(1).sizes, node.input(2).sizes
    batch_first = int(node.attribute("layout", 0)) == 1
    steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    directions, hidden = r[0], r[2]
    gates = _GATES[node.op]
    dims = LoopDims(B=directions, OY=steps * batch, C=w[2] + hidden, K=gates * hidden, IY=steps * batch)
    return Work(
        kind=LayerKind.RECURRENT,
        dims=dims,
        macs=dims.macs,
        vector_ops=_VECTOR_OPS[node.op] * directions * steps * batch * hidden,
        settings=frozenset({4}),
        note=f"{steps} steps in sequence",
    )
