"""Simulating a prepared scenario: the heap driver, virtual time, truth with noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from headway.core.checks import PolicyError, require_able
from headway.core.decision_time import DecisionTimes
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.policies import describe, make, names
from headway.record.log import ArrowLog, LogTable, MemoryLog, read_log
from headway.record.outputs import policy_folders
from headway.sim.driver import Simulation
from headway.wiring.beliefs import belief, truth
from headway.wiring.prepared import Answered, Prepared


def simulate(
    prepared: Prepared,
    policy: str,
    out: Path | None = None,
    on_reply: Answered | None = None,
    decision_times: DecisionTimes | None = None,
) -> LogTable:
    """Simulate a prepared scenario under one policy and return its log.

    With `out` the log is also written there, as segments. `decision_times` records what the policy's
    decisions really take, which has no part in the log. Raises HeadwayError for an unknown policy, one
    that needs what the device cannot do, and one that fails, with its cause; the log then holds what happened
    until then.
    """
    chosen = make(policy)
    require_able(prepared.device, chosen)
    metadata = prepared.metadata(policy)
    sink = MemoryLog(metadata) if out is None else ArrowLog(out, metadata)
    estimator, rule = belief(prepared, chosen)
    engine = Engine(
        prepared.device,
        chosen,
        estimator,
        rule,
        sink,
        charge=prepared.scenario.decision_time.charge(),
        decision_times=decision_times,
    )
    simulation = Simulation(
        engine,
        prepared.source(),
        prepared.device,
        prepared.tables,
        truth(prepared),
        prepared.noise(),
        on_reply,
        speed=prepared.speed(),
        warm=prepared.warm_starts(),
    )
    try:
        if isinstance(sink, MemoryLog):
            simulation.run()
            return sink.table()
        with sink:
            simulation.run()
        return read_log(sink.directory)
    except PolicyError as error:
        raise HeadwayError(f"policy {policy!r} failed at {engine.now:.9g} s: {error}") from error


def compare(
    prepared: Prepared,
    policies: Sequence[str],
    out: Path | None = None,
    on_reply: Answered | None = None,
    decision_times: Mapping[str, DecisionTimes] = MappingProxyType({}),
) -> dict[str, LogTable]:
    """Simulate the same arrivals and the same noise under several policies.

    `decision_times` has a recorder for each policy whose decisions are timed.
    """
    for name in policies:
        require_able(prepared.device, make(name))
    folders = policy_folders(out, policies) if out is not None else {}
    return {
        name: simulate(prepared, name, folders.get(name), on_reply, decision_times.get(name))
        for name in policies
    }


def known_policies() -> dict[str, str]:
    """The registered policies with a line on each."""
    return {name: describe(name) for name in names()}


def require_policies(policies: Sequence[str]) -> None:
    """Raise HeadwayError, naming those that exist, if one of the names is unknown."""
    for name in policies:
        make(name)
