"""What becomes of the operands of a layer: which stream through the row window, which stay."""

from __future__ import annotations

from headway.models.graph import Layer, LayerKind


def streamed(layer: Layer) -> tuple[int, ...]:
    """Positions of the operands that a layer reads through its row window, as one map.

    The first, and those that lie beside it with as many rows: the parts of a concatenation. Not what folded
    followers read, whose rows go with the output's, nor what stays in a product of two activations, all
    rows of which are needed for one of the output.
    """
    window = [position for position, operand in enumerate(layer.operands) if not operand.at_output]
    if not window:
        return ()
    first = layer.operands[window[0]]
    alone = layer.kind is LayerKind.RECURRENT or (layer.weight_is_activation and not first.row_wise)
    return tuple(
        position
        for position in window
        if position == window[0]
        or (
            not alone
            and layer.operands[position].rows == first.rows
            and (layer.operands[position].row_wise or not layer.weight_is_activation)
        )
    )


def held(layer: Layer) -> tuple[int, ...]:
    """Positions of the activations that stay while the other factor of a product streams."""
    if not layer.weight_is_activation:
        return ()
    stream = streamed(layer)
    return tuple(
        position
        for position, operand in enumerate(layer.operands)
        if not operand.at_output and position not in stream
    )


def main_rows(layer: Layer) -> int:
    """Rows of what streams through a layer; at least 1."""
    positions = streamed(layer)
    return max(1, layer.operands[positions[0]].rows) if positions else 1


def operand_bytes(layer: Layer) -> tuple[float, float, float]:
    """Bytes held, streamed and at the side; a tensor that is read twice counts once."""
    main = {layer.operands[position].tensor: layer.operands[position].bytes for position in streamed(layer)}
    stay = {layer.operands[position].tensor: layer.operands[position].bytes for position in held(layer)}
    side = {operand.tensor: operand.bytes for operand in layer.operands}
    for tensor in main:
        stay.pop(tensor, None)
    for tensor in (*main, *stay):
        side.pop(tensor, None)
    return layer.weight_bytes + sum(stay.values()), sum(main.values()), sum(side.values())
