"""Running a prepared scenario for real: the live driver, the wall clock, ONNX Runtime on lanes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headway.config import LaneHardware, Scenario
from headway.core.checks import require_able
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.protocols import Capability, Executor
from headway.live.clock import WallClock
from headway.live.driver import LiveDriver
from headway.live.executors.makers import OnnxRuntimeLanes
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor, ReplayInputs
from headway.live.executors.process import ProcessExecutor
from headway.live.report import LiveReport
from headway.policies import make
from headway.record.log import ArrowLog, LogTable, MemoryLog, read_log
from headway.wiring.beliefs import belief
from headway.wiring.lanes import Measured
from headway.wiring.prepared import Answered, Prepared


@dataclass(frozen=True)
class LiveRun:
    """The log of a live run, and what the driver says of itself."""

    log: LogTable
    report: LiveReport


def run(
    prepared: Prepared, policy: str, out: Path | None = None, on_reply: Answered | None = None
) -> LiveRun:
    """Replay a scenario's arrivals, open-loop, against its real models under one policy.

    With `out` the log is also written there. Raises HeadwayError for an unknown policy, one that needs
    what lanes cannot do, or a scenario whose hardware is not this machine's lanes.
    """
    chosen = make(policy)
    require_lanes(prepared.scenario)
    require_able(prepared.device, chosen)
    measured = prepared.measured
    assert measured is not None
    metadata = prepared.metadata(policy)
    sink = MemoryLog(metadata) if out is None else ArrowLog(out, metadata)
    estimator, rule = belief(prepared, chosen, live=True)
    engine = Engine(prepared.device, chosen, estimator, rule, sink, forgiving=True)
    hardware = prepared.scenario.hardware
    assert isinstance(hardware, LaneHardware)
    executor = _executor(measured, isolated=hardware.isolation == "process")
    try:
        for model in measured.intakes:
            for core in prepared.device.cores:
                executor.prepare(model, (core,))
            if Capability.SPLIT in chosen.needs and len(prepared.device.cores) > 1:
                executor.prepare(model, prepared.device.cores)
        driver = LiveDriver(engine, prepared.source(), executor, WallClock(), on_reply=on_reply)
        if isinstance(sink, MemoryLog):
            report = driver.run()
            return LiveRun(sink.table(), report)
        with sink:
            report = driver.run()
        return LiveRun(read_log(sink.directory), report)
    finally:
        executor.close()


def require_lanes(scenario: Scenario) -> None:
    """Raise HeadwayError if a scenario's hardware is not lanes of this machine."""
    hardware = scenario.hardware
    if not isinstance(hardware, LaneHardware):
        raise HeadwayError(
            f"{scenario.where('hardware')}: {scenario.device().name!r} is an accelerator and can only"
            " be simulated; accepted: lanes of this machine, such as the preset cpu-lanes"
        )


def _executor(measured: Measured, *, isolated: bool) -> Executor:
    models = {key: intake.split for key, intake in measured.intakes.items()}
    inputs = ReplayInputs({key: intake.inputs for key, intake in measured.intakes.items()})
    if isolated:
        return ProcessExecutor(OnnxRuntimeLanes(models, measured.lanes, inputs))
    return OnnxRuntimeExecutor(models, measured.lanes, inputs)
