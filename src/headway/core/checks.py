"""The door: a decision is checked against the state that earlier decisions left, before it is applied."""

from __future__ import annotations

import math
import reprlib
import traceback
from collections.abc import Iterable
from itertools import islice
from types import NoneType
from typing import TYPE_CHECKING, Final

from headway.core.block import Mode, Option
from headway.core.device import Core
from headway.core.messages import Decision, Dispatch, Drop, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.request import Request, State
from headway.core.run import How, Run

if TYPE_CHECKING:
    from headway.core.engine import Engine

_NEEDS = {
    Mode.FUSED: Capability.FUSE,
    Mode.PIPELINE: Capability.PIPELINE,
    Mode.SPLIT: Capability.SPLIT,
}

DECISIONS_PER_REQUEST: Final = 8


class PolicyError(RuntimeError):
    """Something is wrong with what a policy does. In simulation it ends the run with this cause."""


class BadDecision(PolicyError):
    """A policy returned something that cannot be done."""


class PolicyFailed(PolicyError):
    """A policy raised an exception; it is the cause of this one."""

    def __init__(self, method: str, error: BaseException) -> None:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        super().__init__(
            f"its {method} raised {type(error).__name__}: {error}"
            f" ({frame.filename}, line {frame.lineno}, in {frame.name})"
        )


def answer_of(engine: Engine) -> list[Decision]:
    """Ask the policy, and collect its answer before any of it is applied.

    Raises BadDecision if it is no answer: not an iterable, or one without an end. (An answer has at most
    a few decisions for each request; a generator that waits for the view to change waits forever, because
    the view changes only afterwards.)
    """
    most = DECISIONS_PER_REQUEST * (len(engine.ready) + len(engine.running)) + DECISIONS_PER_REQUEST
    decisions = engine.policy.decide(engine.view)
    if not isinstance(decisions, Iterable):
        raise BadDecision(f"decide returned {decisions!r}; accepted: an iterable of decisions")
    answer = list(islice(decisions, most + 1))
    if len(answer) > most:
        raise BadDecision(
            f"decide gave more than {most} decisions for {len(engine.ready)} waiting and"
            f" {len(engine.running)} running requests; the view does not change before all are collected"
        )
    return answer


def check_key(key: object) -> tuple[float, ...]:
    """A policy's key for a request. Raises BadDecision unless it is a tuple of numbers that sort."""
    if isinstance(key, tuple) and all(isinstance(part, (int, float)) and part == part for part in key):
        return key
    raise BadDecision(f"key returned {key!r}; accepted: a tuple of numbers, none of them NaN")


def check_preempt(engine: Engine, decision: Preempt) -> None:
    """Raises BadDecision for a run that is over, or without the capability."""
    if not isinstance(decision.run, Run) or not isinstance(decision.how, How):
        raise BadDecision(f"returned {decision!r}; accepted: Preempt(run, how) with a Run and a How")
    if decision.run.id not in engine.running:
        raise BadDecision(f"preempts run {decision.run.id}, which does not run")
    if Capability.PREEMPT not in engine.policy.needs:
        raise BadDecision(f"preempts without declaring that it needs {Capability.PREEMPT.value!r}")


def check_drop(engine: Engine, decision: Drop) -> None:
    """Raises BadDecision for a request that is over."""
    if not isinstance(decision.request, Request):
        raise BadDecision(f"returned {decision!r}; accepted: Drop(request, reason) with a Request")
    if decision.request.id not in engine.requests:
        raise BadDecision(f"drops request {decision.request.id}, which is already over")


def check_wake(engine: Engine, decision: Wake) -> None:
    """Raises BadDecision for a time that will not come."""
    if not isinstance(decision.at_s, (int, float)) or not engine.now < decision.at_s < math.inf:
        raise BadDecision(
            f"asks to be woken at {decision.at_s!r}, which is not after now ({engine.now});"
            " accepted: a later time, in seconds"
        )


def check_dispatch(engine: Engine, decision: Dispatch) -> tuple[Request, Option]:
    """The request and the option that a dispatch asks for.

    Raises BadDecision naming what is wrong: a field of another type, more than one request, a request that
    is not ready, blocks that do not go on where it stands, a core that is busy or named twice, a mode the
    policy does not declare, or a run that does not fit.
    """
    _check_types(decision)
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
            if core not in engine.device.cores:
                raise BadDecision(
                    f"dispatches request {request.id} on core {core.name!r}, which is not one of"
                    f" {engine.device.name}"
                )
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


def _check_types(decision: Dispatch) -> None:
    fields = (
        ("requests", "a tuple of Request", _tuple_of(decision.requests, Request)),
        ("blocks", "a range", isinstance(decision.blocks, range)),
        ("cores", "a tuple of Core", _tuple_of(decision.cores, Core)),
        ("mode", "a Mode", isinstance(decision.mode, Mode)),
        ("cuts", "a tuple of int", _tuple_of(decision.cuts, int)),
        ("band_rows", "an int or None", isinstance(decision.band_rows, (int, NoneType))),
    )
    for name, accepted, fits in fields:
        if not fits:
            found = reprlib.repr(getattr(decision, name))
            raise BadDecision(f"dispatches with {name} = {found}; accepted: {accepted}")


def _tuple_of(value: object, kind: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)
