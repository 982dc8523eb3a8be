"""Control flow: If, Loop, Scan and SequenceMap are priced through their bodies."""

from __future__ import annotations

from dataclasses import replace

from headway.models.graph import LayerKind
from headway.models.operators import BodyCost, Node, Work, formula
from headway.models.tensors import Shape, Tensor, UnknownShapeError


def _work(body: BodyCost, times: int, note: str, warning: str = "") -> Work:
    return Work(
        kind=LayerKind.OTHER,
        settings=frozenset({0}),
        macs=body.macs * times,
        # Entering a body is itself an operation, so an empty one is not free.
        vector_ops=max(1, body.vector_ops * times),
        captured=body.captured,
        extra_roots=body.roots,
        extra_weight_bytes=body.weight_bytes,
        bounded=body.bounded,
        note=note,
        warning=warning,
        problems=body.problems,
    )


def _settle(output: Tensor | None, source: Tensor, shape: Shape | None) -> None:
    if output is None:
        return
    if output.dtype == "float32" and source.dtype != "float32":
        output.dtype = source.dtype
    output.sequence = source.sequence
    output.sequence_elements = source.sequence_elements
    if not output.known:
        output.shape = shape


@formula("If")
def if_branches(node: Node) -> Work:
    """The dearer branch, by MACs, operations, then bytes; the one taken if the condition is constant.

    A branch that cannot run at these sizes is meant for others, and is not taken if the other one can run.
    """
    branches = {name: node.walk_body(node.attribute(name), ()) for name in ("then_branch", "else_branch")}
    condition = node.input(0).value
    unfit = [name for name, body in branches.items() if body.problems]
    warning = ""
    if condition is not None and condition.size == 1:
        name = "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"
        note = f"the condition is constant: {name.replace('_', ' ')}"
    elif len(unfit) == 1:
        name = next(name for name in branches if name not in unfit)
        note = f"only the {name.replace('_', ' ')} can run at these sizes"
        warning = f"{node.label}: {note}: {branches[unfit[0]].problems[0]}"
    else:
        name = max(
            branches,
            key=lambda key: (branches[key].macs, branches[key].vector_ops, branches[key].moved_bytes),
        )
        note = f"priced for the dearer branch: {name.replace('_', ' ')}"
    chosen = branches[name]
    for position, output in enumerate(node.outputs):
        if position < len(chosen.outputs):
            _settle(output, chosen.outputs[position], chosen.outputs[position].shape)
    roots = tuple(dict.fromkeys(root for body in branches.values() for root in body.roots))
    captured = tuple({id(tensor): tensor for body in branches.values() for tensor in body.captured}.values())
    return _work(replace(chosen, roots=roots, captured=captured), 1, note, warning)


def _loose(tensor: Tensor, name: str, shape: Shape | None, dtype: str = "") -> Tensor:
    """A body's input: the outer tensor's type, no value, rows along any axis."""
    return Tensor(
        name=name,
        dtype=dtype or tensor.dtype,
        shape=shape,
        sequence=tensor.sequence,
        sequence_elements=tensor.sequence_elements,
    )


@formula("Loop")
def loop(node: Node) -> Work:
    """The body times the trip count, an upper bound under a condition; if not known once, and said."""
    body = node.attribute("body")
    trip = node.input(0).value if node.has(0) else None
    count = int(trip.reshape(-1)[0]) if trip is not None and trip.size == 1 else None
    states = [node.input(position) for position in range(2, len(node.inputs))]
    arguments = [
        Tensor(name="iteration", dtype="int64", shape=()),
        Tensor(name="condition", dtype="bool", shape=()),
        *(_loose(state, state.name, state.shape) for state in states),
    ]
    cost = node.walk_body(body, arguments)
    carried = cost.outputs[1 : 1 + len(states)]
    for state, after, output in zip(states, carried, node.outputs, strict=False):
        same = state.shape == after.shape
        _settle(output, after, after.shape if same or count == 1 else None)
    for scanned, output in zip(cost.outputs[1 + len(states) :], node.outputs[len(states) :], strict=False):
        _settle(output, scanned, None if scanned.shape is None else (count, *scanned.shape))
    if count is None:
        warning = f"{node.label}: the trip count is not known before the run; priced for one trip"
        return _work(cost, 1, "trip count not known: priced for one trip", warning)
    return _work(cost, max(count, 1) if count else 1, f"body x {count} trips")


@formula("Scan")
def scan(node: Node) -> Work:
    """The body times the length of the scanned axis."""
    body = node.attribute("body")
    scanned_count = int(node.attribute("num_scan_inputs"))
    inputs = [node.input(position) for position in range(len(node.inputs)) if node.has(position)]
    batched = node.version < 9  # opset 8: a batch axis first, and optional lengths before the states
    if batched and len(node.inputs) and node.inputs[0] is not None:
        inputs = inputs[1:]
    states, scanned = inputs[:-scanned_count], inputs[-scanned_count:]
    axes = node.attribute("scan_input_axes") or [1 if batched else 0] * scanned_count
    batch = states[0].sizes[0] if batched and states else scanned[0].sizes[0] if batched else 1
    lengths: list[int] = []
    arguments: list[Tensor] = []
    for state in states:
        arguments.append(_loose(state, state.name, state.sizes[1:] if batched else state.shape))
    for tensor, axis in zip(scanned, axes, strict=True):
        sizes = tensor.sizes
        axis = axis % len(sizes)
        lengths.append(sizes[axis])
        rest = sizes[:axis] + sizes[axis + 1 :]
        arguments.append(_loose(tensor, tensor.name, rest[1:] if batched else rest))
    if not lengths:
        raise UnknownShapeError(node.label)
    length = lengths[0]
    cost = node.walk_body(body, arguments)
    for state, output in zip(states, node.outputs, strict=False):
        _settle(output, state, state.shape)
    out_axes = node.attribute("scan_output_axes") or [0] * len(node.outputs)
    results = zip(cost.outputs[len(states) :], node.outputs[len(states) :], out_axes, strict=False)
    for result, output, axis in results:
        shape = result.shape
        if shape is not None:
            place = axis % (len(shape) + 1)
            shape = (batch, length, *shape) if batched else (*shape[:place], length, *shape[place:])
        _settle(output, result, shape)
    return _work(cost, length * batch, f"body x {length} steps" + (f" x {batch} items" if batched else ""))


@formula("SequenceMap")
def sequence_map(node: Node) -> Work:
    """The body for each member; their number follows from the elements, if members are of one size."""
    sequence = node.input(0)
    arguments = []
    for tensor in (tensor for tensor in node.inputs if tensor is not None):
        argument = _loose(tensor, tensor.name, tensor.shape)
        argument.sequence = False
        arguments.append(argument)
    cost = node.walk_body(node.attribute("body"), arguments)
    member = arguments[0]
    count = (
        sequence.elements // member.elements if sequence.known and member.known and member.elements else None
    )
    for output, made in zip(node.outputs, cost.outputs, strict=False):
        if output is not None:
            output.dtype, output.shape, output.sequence = made.dtype, made.shape, True
            output.sequence_elements = made.elements * count if made.known and count is not None else None
    if count is None:
        warning = f"{node.label}: the number of members is not known before the run; priced for one"
        return _work(cost, 1, "number of members not known: priced for one", warning)
    return _work(cost, max(1, count), f"body x {count} members")
