"""From a scenario to loaded models with their costs on its device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

from headway.config import Scenario, StreamHardware, Tenant
from headway.config.arrivals import After, Closed, Streams
from headway.config.scenario import MOST_REQUESTS
from headway.config.traces import Trace
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.core.messages import Reply
from headway.core.protocols import Contention, CostTable
from headway.cost.capacity import Demand, demand
from headway.cost.contention import MaxMinFair, OverlapLoss, Proportional
from headway.cost.table import Table, build_table
from headway.models import Graph, at_width, load_model, merge
from headway.models.batch_axis import batch_axes, batch_sizes
from headway.models.importers.shipped import is_shipped
from headway.models.reading import zoo_model
from headway.sim.noise import LogNormalNoise, Noise, RecordedNoise
from headway.sim.speed import Speed, Stretch, alternating, repeated
from headway.sim.warm import WarmStarts
from headway.wiring.lanes import Measured, Step, measure
from headway.wiring.shelf import Priced, Shelf
from headway.wiring.streams import Predicted, predict
from headway.workload.draws import stream
from headway.workload.rates import request_rates
from headway.workload.sources import ScenarioSource, TenantLoad
from headway.workload.traces import rows_taken, trace_times

Answered = Callable[[Reply], None]
"""Called with every reply of a run."""


@dataclass(frozen=True)
class Prepared:
    """A scenario whose models are loaded and priced; several policies can be run on it.

    `tables` are keyed by the name under which the engine knows a model; `expected_requests` is how many
    arrivals there will be, or None where closed loops decide. `measured` is there on a device with lanes,
    `predicted` on a simulated GPU. `host` is how the speed of the machine varied while something ran that is
    always alike, if that was recorded (`headway.sim.speed`).
    `warnings` are what was assumed about the scenario's model files (sizes, and costs of unknown operators),
    and what makes measured profiles doubtful.
    """

    scenario: Scenario
    device: Device
    tables: Mapping[str, CostTable]
    loads: tuple[TenantLoad, ...]
    expected_requests: int | None
    demand: Demand | None = None
    streams: Streams | None = None
    measured: Measured | None = None
    predicted: Predicted | None = None
    warnings: tuple[str, ...] = ()
    host: tuple[Stretch, ...] = ()

    def source(self) -> ScenarioSource:
        """A fresh source of the scenario's arrivals."""
        return _source(self.loads, self.streams, self.scenario)

    def contention(self) -> Contention:
        """What co-runners do to each other: they share memory bandwidth, or, on lanes, lose by overlap."""
        if self.measured is not None:
            return OverlapLoss(self.measured.overlap_w)
        hardware = self.scenario.hardware
        if isinstance(hardware, StreamHardware):
            assert hardware.overlap_w is not None, "losses that are predicted depend on pairs"
            return OverlapLoss(hardware.overlap_w)
        rule = Proportional if self.scenario.contention == "proportional" else MaxMinFair
        return rule(self.device.dram_bandwidth_bytes_s)

    def noise(self) -> Noise:
        """How far solo times stray: as the scenario says, or, on lanes, as they did when measured.

        Where the host's speed was recorded, all that strays is in that.
        """
        seed = self.scenario.seed

        def draws(tenant: str, chunk: int) -> Any:
            return stream(seed, "solo noise", tenant, chunk)

        if self.host:
            return LogNormalNoise(0.0, draws)
        if self.measured is not None:
            return RecordedNoise(self.measured.spread, draws)
        return LogNormalNoise(self.scenario.noise.solo_std, draws)

    def speed(self) -> Speed | None:
        """How the machine's speed varies: as was recorded, or as the scenario says; None if it does not."""
        draws = stream(self.scenario.seed, "stalls")
        if self.host:
            return Speed(repeated(self.host, draws))
        stalls = self.scenario.noise.stalls
        if stalls is None:
            return None
        return Speed(alternating(stalls.factor, stalls.lasts, stalls.every, draws))

    def warm_starts(self) -> WarmStarts | None:
        """What runs save on lanes that were busy until just before, where that was measured."""
        overheads = None if self.measured is None else self.measured.overheads
        if overheads is None or overheads.warm_dispatch_s is None:
            return None
        return WarmStarts(overheads.cold_after_s, overheads.dispatch_s - overheads.warm_dispatch_s)

    def metadata(self, policy: str) -> dict[str, Any]:
        """The description of a run that its log carries."""
        scenario, device = self.scenario, self.device
        packages = ("headway", "numpy", "onnx", *(("onnxruntime",) if self.measured is not None else ()))
        described: dict[str, Any] = {
            "name": device.name,
            "cores": [{"index": c.index, "name": c.name, "kind": c.kind} for c in device.cores],
        }
        if isfinite(device.dram_bandwidth_bytes_s):
            described["dram_bandwidth_bytes_s"] = device.dram_bandwidth_bytes_s
        known = self.measured or self.predicted
        profiles = {} if known is None else {"profiles": known.described()}
        return profiles | {
            "policy": policy,
            "scenario": scenario.to_mapping(),
            "seed": scenario.seed,
            "versions": {name: version(name) for name in packages},
            "device": described,
            "tenants": [
                {
                    "name": load.tenant,
                    "model": load.model,
                    "priority": load.mean_priority,
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
            **({} if self.demand is None else {"demand": asdict(self.demand)}),
        }


def prepare(
    scenario: Scenario,
    on_step: Step | None = None,
    *,
    fresh: bool = False,
    shelf: Shelf | None = None,
) -> Prepared:
    """Load the models of a scenario, price or measure them on its hardware, and size its arrivals.

    On lanes what was measured earlier on this machine is used again; `fresh` measures the machine's
    overheads anew. Models are taken from the `shelf` and put there, if there is one. Raises HeadwayError
    naming the scenario's line for a model that cannot be loaded, priced or run.
    """
    say = on_step or (lambda words: None)
    device = scenario.device()
    assumed: tuple[str, ...] = ()
    models = {model_key(tenant): position for position, tenant in reversed(list(enumerate(scenario.tenants)))}
    measured, predicted = None, None
    tables: Mapping[str, CostTable]
    if isinstance(scenario.hardware, StreamHardware):
        graphs = {key: (at, _read(scenario, at, say)) for key, at in models.items()}
        say(f"predicting times on {scenario.hardware.gpu}")
        larger = {
            key: {size: _read(scenario, at, say, size) for size in batch_sizes(most)}
            for key, at in models.items()
            if (most := most_batch_of(scenario, key)) > 1
        }
        predicted = predict(scenario, device, graphs, larger)
        tables, isolated_s, assumed = predicted.tables, predicted.isolated_s, predicted.said
    elif device.has_lanes:
        measured = measure(
            scenario,
            device,
            models,
            say,
            fresh=fresh,
            most_batch={key: most_batch_of(scenario, key) for key in models},
        )
        tables, isolated_s, assumed = measured.tables, measured.isolated_s, measured.said
    else:
        shelf = shelf if shelf is not None else Shelf()
        priced = {key: _priced(scenario, at, device, say, shelf) for key, at in models.items()}
        assumed = tuple(
            f"{scenario.where('tenants', position, 'model')}: {warning}"
            for key, position in models.items()
            if scenario.tenants[position].is_file
            for warning in priced[key].warnings
        )
        tables = {key: each.table for key, each in priced.items()}
        isolated_s = {key: table.remaining_s[0] for key, table in tables.items()}
    loads = tuple(
        TenantLoad.of(
            tenant,
            model_key(tenant),
            tables[model_key(tenant)].blocks,
            isolated_s[model_key(tenant)],
            scenario.arrivals_of(tenant),
        )
        for tenant in scenario.tenants
    )
    assumed += _check_traces(scenario, loads)
    loads, streams, offered = _at_load(scenario, device, tables, loads)
    expected = _source(loads, streams, scenario).expected()
    return Prepared(scenario, device, tables, loads, expected, offered, streams, measured, predicted, assumed)


def model_key(tenant: Tenant) -> str:
    """What the engine calls a tenant's model: its name and whatever distinguishes its shapes."""
    choices = {**tenant.options, **tenant.dims}
    bucket = ",".join(f"{name}={value}" for name, value in sorted(choices.items()))
    return f"{tenant.model}[{bucket}]" if bucket else tenant.model


def price(graph: Graph, device: Device) -> Table:
    """The cost table of a model on an accelerator, as the simulator takes it: float tensors at the width of
    the device's operands, followers merged into the layers before them.

    Raises HeadwayError for a graph without layers, and for a device with lanes, which are measured.
    """
    if not graph.layers:
        raise HeadwayError(f"{graph.name} has no layers to run")
    return build_table(merge(at_width(graph, device.operand_bytes)), device)


def most_batch_of(scenario: Scenario, key: str) -> int:
    """The largest batch that a tenant of that model allows."""
    return max(
        (
            tenant.batching.max_size
            for tenant in scenario.tenants
            if tenant.batching is not None and model_key(tenant) == key
        ),
        default=1,
    )


def _read(scenario: Scenario, position: int, say: Step, batch: int = 1) -> Graph:
    """A tenant's model, or one that does for `batch` requests what it does for one."""
    tenant = scenario.tenants[position]
    path = scenario.model_path(tenant)
    say(f"reading {model_key(tenant)}" + (f" for {batch} requests" if batch > 1 else ""))
    try:
        if path is not None:
            dims = tenant.dims if batch == 1 else {**tenant.dims, **_batch_dims(path, tenant, batch)}
            return load_model(path, dims=dims)
        if is_shipped(tenant.model):
            if batch > 1:
                raise HeadwayError(f"{tenant.model}: a layer table has no batch; accepted: a model that has")
            return load_model(tenant.model, dims=tenant.options)
        options = dict(tenant.options)
        if batch > 1:
            options["batch"] = batch * options.get("batch", 1)
        return load_model(zoo_model(tenant.model, options, weights=False), name=tenant.model)
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('tenants', position, 'model')}: {error}") from None


def _batch_dims(path: Path, tenant: Tenant, batch: int) -> dict[str, int]:
    if path.suffix.lower() != ".onnx":
        raise HeadwayError(f"{path}: a layer table has no batch; accepted for batches: .onnx")
    from headway.models.model_file import read_model

    graph = read_model(path).model.graph
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    return dict.fromkeys(batch_axes(inputs, tenant.dims, str(path)), batch)


def _priced(scenario: Scenario, position: int, device: Device, say: Step, shelf: Shelf) -> Priced:
    """A tenant's model with its costs, from the shelf if it is there."""
    tenant = scenario.tenants[position]
    path = scenario.model_path(tenant)

    def make() -> Priced:
        graph = _read(scenario, position, say)
        return Priced(_price(scenario, position, graph, device, say), tuple(graph.warnings))

    return shelf.priced(device, model_key(tenant), path, make)


def _price(scenario: Scenario, position: int, graph: Graph, device: Device, say: Step) -> CostTable:
    """The cost table of a tenant's model on an accelerator."""
    say(f"pricing {model_key(scenario.tenants[position])} on {device.name}")
    try:
        return price(graph, device)
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('tenants', position, 'model')}: {error}") from None


def _check_traces(scenario: Scenario, loads: Sequence[TenantLoad]) -> tuple[str, ...]:
    """Read every trace, and say which of its rows no tenant or several take."""
    traces: list[Trace] = []
    for position, load in enumerate(loads):
        if isinstance(load.arrivals, Trace):
            try:
                trace_times(load.arrivals, scenario.seed, load.tenant)
            except HeadwayError as error:
                raise HeadwayError(f"{scenario.where('tenants', position, 'arrivals')}: {error}") from None
            traces.append(load.arrivals)
    return tuple(f"{scenario.where('tenants')}: {warning}" for warning in rows_taken(traces))


def _at_load(
    scenario: Scenario, device: Device, tables: Mapping[str, CostTable], loads: tuple[TenantLoad, ...]
) -> tuple[tuple[TenantLoad, ...], Streams, Demand | None]:
    """The tenants' arrivals and streams at the scenario's load, and what they ask of the device."""
    streams = scenario.streams or Streams()
    if any(isinstance(load.arrivals, Closed) for load in loads):
        return loads, streams, None
    try:
        rates = request_rates(loads, streams)
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('tenants')}: {error}") from None
    offered = demand([(tables[load.model], rates[load.tenant]) for load in loads], device)
    if scenario.offered_load is None:
        return loads, streams, offered
    factor = scenario.offered_load / offered.load
    roots = sum(rates[load.tenant] for load in loads if not isinstance(load.arrivals, After))
    if (scenario.duration or 0.0) * roots * factor > MOST_REQUESTS:
        raise HeadwayError(
            f"{scenario.where('duration')}: at load {scenario.offered_load:g} over {MOST_REQUESTS} requests"
            " would arrive; accepted: a shorter time or a lower load"
        )
    return (
        tuple(load.faster(factor) for load in loads),
        streams.faster(factor),
        Demand(offered.cores * factor, offered.bandwidth * factor),
    )


def _source(loads: Sequence[TenantLoad], streams: Streams | None, scenario: Scenario) -> ScenarioSource:
    return ScenarioSource(
        loads, scenario.seed, duration_s=scenario.duration, count=scenario.requests, streams=streams
    )
