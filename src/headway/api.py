"""The functions behind `headway.simulate`, `compare`, `run`, `twin` and `build_table`, for scripts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from headway import wiring
from headway.config import Scenario, load_hardware
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.models import Graph, load_model
from headway.record.log import LogTable
from headway.record.metrics import Summary, summarise

if TYPE_CHECKING:
    from headway.cost import Table
    from headway.live.report import LiveReport
    from headway.record.outputs import OutputPaths
    from headway.record.table import Fitted
    from headway.record.twin import TwinReport


@dataclass(frozen=True, repr=False)
class Result:
    """What one policy achieved: its log, and the metrics computed from it. Printed, it is a table.

    With `bounding`, which simulated results have, the summary also has the clairvoyant bound.
    """

    policy: str
    log: LogTable
    bounding: wiring.Bounding | None = field(default=None, kw_only=True)

    @cached_property
    def summary(self) -> Summary:
        """Metrics in total and per tenant; docs/metrics.md defines each."""
        bound = None if self.bounding is None else self.bounding.share(self.log)
        return replace(summarise(self.log), sla_bound=bound)

    def write(self, directory: str | Path) -> OutputPaths:
        """Write results.json, the report and the timeline into a directory."""
        return Comparison({self.policy: self}).write(directory)

    def __repr__(self) -> str:
        from headway.record.table import tenants

        return _text(tenants(self.summary))


@dataclass(frozen=True, repr=False)
class LiveResult(Result):
    """What one policy achieved for real. `report` says what the driver took and how well it kept time."""

    report: LiveReport


@dataclass(frozen=True, repr=False)
class TwinResult:
    """A prediction beside live repeats of the same arrivals. Printed, it is a table."""

    predicted: Result
    repeats: tuple[LiveResult, ...]
    report: TwinReport

    def write(self, directory: str | Path) -> OutputPaths:
        """Write twin.json, results.json, one report over all, and timelines into a directory."""
        from headway.record.outputs import write_outputs
        from headway.record.twin import write_twin

        folder = Path(directory)
        logs = {"predicted": self.predicted.log}
        logs |= {f"measured-{number}": result.log for number, result in enumerate(self.repeats, 1)}
        written = write_outputs(folder, logs)
        write_twin(folder / "twin.json", self.report)
        return written

    def __repr__(self) -> str:
        from headway.record.table import twin

        return _text(twin(self.report))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several policies on the same arrivals, by name. Printed, it is a table."""

    results: Mapping[str, Result]

    def __getitem__(self, policy: str) -> Result:
        return self.results[policy]

    def write(self, directory: str | Path) -> OutputPaths:
        """Write results.json, one report over all, and a timeline for each into a directory."""
        from headway.record.outputs import write_outputs

        return write_outputs(
            Path(directory),
            {name: result.log for name, result in self.results.items()},
            {name: result.summary for name, result in self.results.items()},
        )

    def __repr__(self) -> str:
        from headway.record.table import comparison

        return _text(comparison({name: result.summary for name, result in self.results.items()}))


def _text(table: Fitted) -> str:
    from rich.console import Console

    written = StringIO()
    Console(file=written, width=100, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def simulate(scenario: Scenario | str | Path, policy: str | None = None) -> Result:
    """Simulate a scenario (or the file of one) under a policy, by default the scenario's own.

    What had to be assumed about a model file is said in a UserWarning. Raises HeadwayError for a mistake in
    the scenario, an unknown policy, and a policy that fails.
    """
    given = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    name = policy or given.policy
    return _compared(given, [name])[name]


def compare(scenario: Scenario | str | Path, policies: Sequence[str]) -> Comparison:
    """Simulate the same arrivals and noise under several policies.

    What had to be assumed about a model file is said in a UserWarning. Raises HeadwayError for a mistake in
    the scenario, an unknown policy or none, and a policy that fails.
    """
    given = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    if isinstance(policies, str) or not policies:
        raise HeadwayError(f"policies: found {policies!r}; accepted: a list of names of policies")
    return _compared(given, policies)


def run(scenario: Scenario | str | Path, policy: str | None = None) -> LiveResult:
    """Run a scenario's models for real on this machine's lanes, by default under the scenario's own policy.

    Models are split and measured first, or their profiles taken from the cache. What makes a profile doubtful
    is said in a UserWarning. In the main thread Ctrl-C ends arrivals, lets what runs finish and returns
    what there is. Raises HeadwayError for a mistake in the scenario, an unknown policy, and hardware other
    than lanes of this machine.
    """
    prepared, name = _for_real(scenario, policy)
    live = wiring.run(prepared, name)
    return LiveResult(name, live.log, live.report)


def twin(scenario: Scenario | str | Path, policy: str | None = None, repeats: int = 3) -> TwinResult:
    """Predict a scenario by simulation, run it for real that often, and compare the two.

    Raises HeadwayError as `run` does, and for fewer than one repeat.
    """
    if repeats < 1:
        raise HeadwayError(f"repeats: found {repeats!r}; accepted: whole numbers from 1 on")
    prepared, name = _for_real(scenario, policy)
    found = wiring.twin(prepared, name, repeats)
    lives = tuple(LiveResult(name, live.log, live.report) for live in found.repeats)
    return TwinResult(Result(name, found.predicted), lives, found.report)


def _for_real(scenario: Scenario | str | Path, policy: str | None) -> tuple[wiring.Prepared, str]:
    given = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    name = policy or given.policy
    wiring.require_policies([name])
    wiring.require_lanes(given)
    prepared = wiring.prepare(given, fresh=True)
    for warning in prepared.warnings:
        warnings.warn(warning, stacklevel=3)
    return prepared, name


def _compared(scenario: Scenario, policies: Sequence[str]) -> Comparison:
    wiring.require_policies(policies)
    prepared = wiring.prepare(scenario)
    for warning in prepared.warnings:
        warnings.warn(warning, stacklevel=3)
    logs = wiring.compare(prepared, policies)
    bounding = wiring.Bounding(prepared)
    return Comparison({name: Result(name, log, bounding=bounding) for name, log in logs.items()})


def build_table(model: Graph | str | Path, hardware: Device | str | Path) -> Table:
    """The cost table of a model on an accelerator, as the simulator takes it.

    `model` is what `load_model` returns or reads, `hardware` what `load_hardware` does. Float tensors are
    priced at the width of the hardware, and layers are merged. One block is one merged layer: `serial_s` has
    seconds by block and core kind, `remaining_s` those from a block to the end, `stacks` and `pipelines` the
    ways to fuse; `headway.core.protocols.CostTable` describes them all.

    Raises HeadwayError for a model or hardware that cannot be read, a model without layers, and lanes, whose
    costs are measured.
    """
    graph = model if isinstance(model, Graph) else load_model(model)
    device = hardware if isinstance(hardware, Device) else load_hardware(hardware)
    return wiring.price(graph, device)
