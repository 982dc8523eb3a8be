"""The door: a decision is checked against the state that earlier decisions left, before it is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.core.block import Mode, Option
from headway.core.messages import Dispatch
from headway.core.protocols import Capability
from headway.core.request import Request, State

if TYPE_CHECKING:
    from headway.core.engine import Engine

_NEEDS = {
    Mode.FUSED: Capability.FUSE,
    Mode.PIPELINE: Capability.PIPELINE,
    Mode.SPLIT: Capability.SPLIT,
}


class BadDecision(RuntimeError):
    """A policy returned something that cannot be done. In simulation it ends the run with this cause."""


def check_dispatch(engine: Engine, decision: Dispatch) -> tuple[Request, Option]:
    """The request and the option that a dispatch asks for.

    Raises BadDecision naming what is wrong: more than one request, a request that is not ready, blocks
    that do not go on where it stands, a core that is busy or named twice, a mode the policy does not
    declare, or a run that does not fit.
    """
    if len(decision.requests) != 1:
        raise BadDecision(
            f"dispatches {len(decision.requests)} requests at once; this device takes one per run"
        )
    request = decision.requests[0]
    if request.state is not State.READY:
        raise BadDecision(f"dispatches request {request.id}, which is {request.state}, not ready")
    blocks = decision.blocks
    if (
        blocks.step != 1
        or blocks.start != request.next_block
        or not blocks.start < blocks.stop <= request.blocks
    ):
        raise BadDecision(
            f"dispatches blocks {blocks} of request {request.id}, which stands at block {request.next_block}"
            f" of {request.blocks}"
        )
    if not decision.cores or len({core.index for core in decision.cores}) != len(decision.cores):
        raise BadDecision(f"dispatches request {request.id} on no core, or on one core twice")
    for core in decision.cores:
        if core not in engine.idle:
            raise BadDecision(f"dispatches request {request.id} on core {core.name!r}, which is busy")
    need = _NEEDS.get(decision.mode)
    if need is not None and need not in engine.policy.needs:
        raise BadDecision(
            f"dispatches in mode {decision.mode} without declaring that it needs {need.value!r}"
        )
    try:
        option = engine.estimator.option(decision)
    except ValueError as error:
        raise BadDecision(f"dispatches request {request.id} in a way that cannot run: {error}") from error
    return request, option
