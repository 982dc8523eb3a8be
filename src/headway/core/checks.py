"""The door: a decision is checked against the state that earlier decisions left, before it is applied."""

from __future__ import annotations

import math
import reprlib
import traceback
from collections.abc import Iterable
from itertools import islice
from types import GeneratorType, NoneType
from typing import TYPE_CHECKING, Final

from headway.core.block import Mode, Option
from headway.core.device import Core, Device
from headway.core.errors import HeadwayError
from headway.core.messages import Adjust, Decision, Dispatch, Drop, Preempt, Wake
from headway.core.moves import mode_on
from headway.core.protocols import Capability, Policy
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


def require_able(device: Device, policy: Policy) -> None:
    """Raises HeadwayError for a policy that lanes refuse, one that needs an accelerator or throttles, and for
    one that accelerators refuse."""
    if not device.has_lanes:
        if policy.needs_lanes:
            raise HeadwayError(
                f"this {type(policy).__name__} needs lanes: {device.name!r} is an accelerator; accepted:"
                " lanes, or a policy that serves accelerators, such as 'headway'"
            )
        return
    if policy.needs_accelerator:
        raise HeadwayError(
            f"{type(policy).__name__} needs an accelerator: {device.name!r} has lanes; accepted: an"
            " accelerator, or a policy that serves lanes, such as 'edf:planned'"
        )
    if Capability.THROTTLE in policy.needs:
        raise HeadwayError(
            f"{type(policy).__name__} needs {Capability.THROTTLE.value!r}: {device.name!r} has lanes, whose"
            " memory bandwidth cannot be capped; accepted: a policy without it, or an accelerator"
        )


def answer_of(engine: Engine) -> list[Decision]:
    """Ask the policy, and collect its answer before any of it is applied.

    Raises BadDecision if it is no answer: not an iterable, or one without an end. (An answer has at most
    a few decisions for each request; a generator that waits for the view to change waits forever, because
    the view changes only afterwards.)
    """
    most = DECISIONS_PER_REQUEST * (len(engine.ready) + len(engine.running)) + DECISIONS_PER_REQUEST
    decisions = engine.policy.decide(engine.view)
    if type(decisions) is not GeneratorType and not isinstance(decisions, Iterable):
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
    if isinstance(key, tuple):
        for part in key:
            if not isinstance(part, (int, float)) or part != part:
                break
        else:
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


def check_adjust(engine: Engine, decision: Adjust) -> None:
    """Raises BadDecision for a run that is over, a cap that is none, cores that the run cannot get or run on,
    or without the capability."""
    run, cores = decision.run, decision.cores
    if not isinstance(run, Run):
        raise BadDecision(
            f"returned {decision!r}; accepted: Adjust(run, cores, bandwidth_cap_bytes_s) of a Run"
        )
    if run.id not in engine.running:
        raise BadDecision(f"adjusts run {run.id}, which does not run; accepted: a run of view.running")
    if decision.bandwidth_cap_bytes_s is not None:
        _check_cap(engine, decision.bandwidth_cap_bytes_s, f"adjusts run {run.id}")
    if cores is None:
        return
    doing = f"moves run {run.id}"
    if run.batch > 1:
        raise BadDecision(f"{doing}, a batch of {run.batch}; accepted: a run of one request")
    if Capability.REALLOCATE not in engine.policy.needs:
        raise BadDecision(f"{doing} without declaring that it needs {Capability.REALLOCATE.value!r}")
    if not _tuple_of(cores, Core):
        raise BadDecision(f"{doing} to cores = {reprlib.repr(cores)}; accepted: a tuple of Core")
    if not cores or len({core.index for core in cores}) != len(cores):
        raise BadDecision(f"{doing} to {_names(cores)}; accepted: at least one core, none of them twice")
    if run.stopping is not None and run.moving_to is None:
        raise BadDecision(f"{doing}, which was asked to stop ({run.stopping}); accepted: a run that goes on")
    for core in cores:
        problem = _why_not_for(engine, run, core)
        if problem is not None:
            raise BadDecision(
                f"{doing} to core {core.name!r}, {problem}; accepted: cores that are idle, its own, or"
                " given up by another run that an earlier decision stops or moves away"
            )
    _check_moved(engine, run, cores)


def _why_not_for(engine: Engine, run: Run, core: Core) -> str | None:
    """Why a core cannot be promised to a run; None if it can."""
    move = engine.moves.promised_to(core)
    if move is not None and move.run is not run:
        return f"which is promised to request {move.request.id}"
    if move is not None or core in engine.idle or core in run.cores:
        return None
    holder = next((other for other in engine.running.values() if core in other.cores), None)
    if holder is None:
        return f"which is not one of {engine.device.name}"
    return f"which run {holder.id} keeps" if holder.stopping is None else None


def _check_moved(engine: Engine, run: Run, cores: tuple[Core, ...]) -> None:
    """Whether the rest of the range can run there."""
    first = run.segments[run.segment].end_block
    mode = mode_on(cores)
    if mode is Mode.SPLIT and Capability.SPLIT not in engine.policy.needs:
        raise BadDecision(
            f"moves run {run.id} to {len(cores)} cores without declaring that it needs"
            f" {Capability.SPLIT.value!r}"
        )
    if first == run.blocks.stop:
        return
    try:
        engine.estimator.option(Dispatch(run.requests, range(first, run.blocks.stop), cores, mode))
    except ValueError as error:
        raise BadDecision(f"moves run {run.id} where it cannot run: {error}") from error


def _check_cap(engine: Engine, cap_bytes_s: object, doing: str) -> None:
    if not isinstance(cap_bytes_s, (int, float)) or not cap_bytes_s > 0:
        raise BadDecision(
            f"{doing} with bandwidth_cap_bytes_s = {cap_bytes_s!r}; accepted: a number of bytes per second"
            " above 0, math.inf for no cap"
        )
    if Capability.THROTTLE not in engine.policy.needs:
        raise BadDecision(f"{doing} with a cap without declaring that it needs {Capability.THROTTLE.value!r}")


def _names(cores: tuple[Core, ...]) -> str:
    return f"cores {', '.join(core.name for core in cores)}" if cores else "no core"


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


def check_dispatch(engine: Engine, decision: Dispatch) -> Option:
    """The option that a dispatch asks for.

    Raises BadDecision naming what is wrong: a field of another type, several requests that are no batch, a
    request that is not ready, blocks that do not go on where it stands, a core that is busy or named twice,
    a mode the policy does not declare, or a run that does not fit.
    """
    if not _has_types(decision):
        _say_type(decision)
    if len(decision.requests) != 1:
        check_batch(engine, decision.requests)
    request = decision.requests[0]
    if request.state is not State.READY:
        raise BadDecision(f"dispatches request {request.id}, which is {request.state}, not ready")
    blocks = decision.blocks
    start = blocks.start
    if blocks.step != 1 or start != request.next_block or not start < blocks.stop <= request.blocks:
        raise BadDecision(
            f"dispatches blocks {blocks} of request {request.id}, which stands at block {request.next_block}"
            f" of {request.blocks}"
        )
    cores = decision.cores
    if len(cores) != 1 and (not cores or len({core.index for core in cores}) != len(cores)):
        raise BadDecision(f"dispatches request {request.id} on no core, or on one core twice")
    for core in cores:
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
    if decision.bandwidth_cap_bytes_s is not None:
        _check_cap(engine, decision.bandwidth_cap_bytes_s, f"dispatches request {request.id}")
    try:
        option = engine.estimator.option(decision)
    except ValueError as error:
        raise BadDecision(f"dispatches request {request.id} in a way that cannot run: {error}") from error
    return option


def check_batch(engine: Engine, requests: tuple[Request, ...]) -> None:
    """Raises BadDecision unless these may run together."""
    if not requests:
        raise BadDecision("dispatches no request; accepted: one, or several as a batch")
    doing, size = f"dispatches {len(requests)} requests at once", len(requests)
    if Capability.BATCH not in engine.policy.needs:
        raise BadDecision(f"{doing} without declaring that it needs {Capability.BATCH.value!r}: one per run")
    if len({request.id for request in requests}) < size:
        raise BadDecision(f"{doing}, one of them twice")
    first = requests[0]
    for request in requests:
        what = f"{doing}, of which request {request.id}"
        if request.state is not State.READY:
            raise BadDecision(f"{what} is {request.state}, not ready")
        if request.model != first.model or request.next_block != first.next_block:
            raise BadDecision(
                f"{what} stands at block {request.next_block} of {request.model};"
                f" accepted: block {first.next_block} of {first.model}, as the first"
            )
        if request.most_batch < size:
            raise BadDecision(f"{what} allows batches of at most {request.most_batch}")


def _has_types(decision: Dispatch) -> bool:
    return (
        _tuple_of(decision.requests, Request)
        and isinstance(decision.blocks, range)
        and _tuple_of(decision.cores, Core)
        and isinstance(decision.mode, Mode)
        and _tuple_of(decision.cuts, int)
        and isinstance(decision.band_rows, (int, NoneType))
    )


def _say_type(decision: Dispatch) -> None:
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
    if not isinstance(value, tuple):
        return False
    if len(value) == 1:  # as nearly all are
        return isinstance(value[0], kind)
    return not value or all(isinstance(item, kind) for item in value)
