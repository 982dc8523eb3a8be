"""The composition root: from a scenario to a wired engine, driver, policy and estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headway.config import Scenario, Tenant
from headway.core.checks import PolicyError
from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.messages import Reply
from headway.core.protocols import Contention, CostTable
from headway.cost.contention import MaxMinFair, Proportional
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge
from headway.models.graph import Graph
from headway.policies import describe, make, names
from headway.predict.analytic import AnalyticEstimator
from headway.record.log import ArrowLog, LogTable, MemoryLog, read_log
from headway.record.outputs import policy_folders
from headway.sim.driver import Simulation
from headway.sim.noise import LogNormalNoise
from headway.workload.arrivals import stream
from headway.workload.sources import ScenarioSource, TenantLoad

Step = Callable[[str], None]
"""Called with a few words whenever a part of the preparation begins."""

Answered = Callable[[Reply], None]
"""Called with every reply of a simulation."""


@dataclass(frozen=True)
class Prepared:
    """A scenario whose models are loaded and priced; several policies can be simulated on it.

    `graphs` and `tables` are keyed by the name under which the engine knows a model; `expected_requests`
    is how many arrivals there will be, or None where closed loops decide.
    """

    scenario: Scenario
    device: Device
    graphs: Mapping[str, Graph]
    tables: Mapping[str, CostTable]
    loads: tuple[TenantLoad, ...]
    expected_requests: int | None

    def source(self) -> ScenarioSource:
        """A fresh source of the scenario's arrivals."""
        scenario = self.scenario
        return ScenarioSource(
            self.loads, scenario.seed, duration_s=scenario.duration, count=scenario.requests
        )

    def contention(self) -> Contention:
        """The rule by which runs share the memory bandwidth."""
        rule = Proportional if self.scenario.contention == "proportional" else MaxMinFair
        return rule(self.device.dram_bandwidth_bytes_s)

    def metadata(self, policy: str) -> dict[str, Any]:
        """The description of a run that its log carries."""
        scenario, device = self.scenario, self.device
        return {
            "policy": policy,
            "scenario": scenario.to_mapping(),
            "seed": scenario.seed,
            "versions": {name: version(name) for name in ("headway", "numpy", "onnx")},
            "device": {
                "name": device.name,
                "cores": [{"index": c.index, "name": c.name, "kind": c.kind} for c in device.cores],
                "dram_bandwidth_bytes_s": device.dram_bandwidth_bytes_s,
            },
            "tenants": [
                {
                    "name": load.tenant,
                    "model": load.model,
                    "priority": load.priority,
                    "weight": load.weight,
                    "strict": load.strict,
                    "percentile": tenant.sla.percentile,
                    "relative_deadline_s": load.relative_deadline_s,
                    "isolated_s": load.isolated_s,
                }
                for load, tenant in zip(self.loads, scenario.tenants, strict=True)
            ],
            "warmup_s": scenario.warmup_end_s,
            "warmup_share": scenario.warmup.share,
            "duration_s": scenario.duration,
        }


def prepare(scenario: Scenario, on_step: Step | None = None) -> Prepared:
    """Load the models of a scenario, price them on its hardware, and size its arrivals.

    Raises HeadwayError naming the scenario's line for a model that cannot be loaded or priced.
    """
    say = on_step or (lambda words: None)
    device = scenario.device()
    graphs: dict[str, Graph] = {}
    tables: dict[str, CostTable] = {}
    loads = []
    for position, tenant in enumerate(scenario.tenants):
        key = _model_key(tenant)
        if key not in graphs:
            say(f"reading {key}")
            graph = _load(scenario, position, tenant)
            if not graph.layers:
                raise HeadwayError(
                    f"{scenario.where('tenants', position, 'model')}: {key} has no layers to run"
                )
            graphs[key] = merge(at_width(graph, device.operand_bytes))
            say(f"pricing {key} on {device.name}")
            tables[key] = build_table(graphs[key], device)
        loads.append(TenantLoad.of(tenant, key, tables[key].blocks, tables[key].remaining_s[0]))
    return Prepared(scenario, device, graphs, tables, tuple(loads), _expected(loads, scenario))


def simulate(
    prepared: Prepared, policy: str, out: Path | None = None, on_reply: Answered | None = None
) -> LogTable:
    """Simulate a prepared scenario under one policy and return its log.

    With `out` the log is also written there, as segments. Raises HeadwayError for an unknown policy, and for
    one that fails, with its cause; the log then holds what happened until then.
    """
    chosen = make(policy)
    metadata = prepared.metadata(policy)
    sink = MemoryLog(metadata) if out is None else ArrowLog(out, metadata)
    rule = prepared.contention()
    engine = Engine(
        prepared.device, chosen, AnalyticEstimator(prepared.device, prepared.tables, rule), rule, sink
    )
    seed = prepared.scenario.seed
    noise = LogNormalNoise(
        prepared.scenario.noise.solo_std, lambda tenant, chunk: stream(seed, "solo noise", tenant, chunk)
    )
    simulation = Simulation(
        engine, prepared.source(), prepared.device, prepared.tables, rule, noise, on_reply
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
    prepared: Prepared, policies: Sequence[str], out: Path | None = None, on_reply: Answered | None = None
) -> dict[str, LogTable]:
    """Simulate the same arrivals and the same noise under several policies."""
    require_policies(policies)
    folders = policy_folders(out, policies) if out is not None else {}
    return {name: simulate(prepared, name, folders.get(name), on_reply) for name in policies}


def known_policies() -> dict[str, str]:
    """The registered policies with a line on each."""
    return {name: describe(name) for name in names()}


def require_policies(policies: Sequence[str]) -> None:
    """Raise HeadwayError, naming those that exist, if one of the names is unknown."""
    for name in policies:
        make(name)


def _model_key(tenant: Tenant) -> str:
    """What the engine calls a tenant's model: its name and whatever distinguishes its shapes."""
    choices = {**tenant.options, **tenant.dims}
    bucket = ",".join(f"{name}={value}" for name, value in sorted(choices.items()))
    return f"{tenant.model}[{bucket}]" if bucket else tenant.model


def _load(scenario: Scenario, position: int, tenant: Tenant) -> Graph:
    from headway.models import zoo

    path = scenario.model_path(tenant)
    try:
        if path is not None:
            return load_model(path, dims=tenant.dims)
        options = dict(tenant.options)
        batch = options.pop("batch", 1)
        return load_model(zoo.build(tenant.model, batch=batch, weights=False, **options), name=tenant.model)
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('tenants', position, 'model')}: {error}") from None


def _expected(loads: Sequence[TenantLoad], scenario: Scenario) -> int | None:
    """How many requests will arrive; None where closed loops decide."""
    from headway.config.arrivals import Closed

    if scenario.requests is not None:
        return scenario.requests
    if any(isinstance(load.arrivals, Closed) for load in loads):
        return None
    source = ScenarioSource(loads, scenario.seed, duration_s=scenario.duration)
    return sum(1 for _ in source.first())
