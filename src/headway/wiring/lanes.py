"""Models taken in on this machine's lanes: split, measured, and with their cost tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from headway.config import LaneHardware, Scenario
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.core.protocols import CostTable
from headway.cost.lanes import LaneTable
from headway.live.cache import ProfileCache, cache_folder
from headway.live.overheads import measure_overheads
from headway.live.processors import available, machine, runtime
from headway.live.profiler import Intake, take_in
from headway.models.profile import DeviceProfile, ModelProfile
from headway.models.reading import zoo_source
from headway.record.results import write_text
from headway.wiring.overheads import measure_dispatch

if TYPE_CHECKING:
    from headway.predict.features import DeviceLimits

Step = Callable[[str], None]
"""Called with a few words whenever a part of the preparation begins."""

MEANING: Final = "a request through the driver, cold and warm"
"""Of the dispatch that is kept; what was kept under another one is not used."""

_CLASSES = {
    "convolution": ("Conv",),
    "recurrence": ("LSTM", "GRU", "RNN"),
    "matrix product": ("MatMul", "Gemm", "Attention"),
}


@dataclass(frozen=True)
class Measured:
    """What was measured for a scenario on this machine.

    `lanes` are the processors of each lane. `spread` holds the ratios of single measurements of blocks to
    their medians. `overlap_w` is the scenario's own if it gives one.
    """

    lanes: tuple[tuple[int, ...], ...]
    intakes: Mapping[str, Intake]
    overheads: DeviceProfile
    tables: Mapping[str, CostTable]
    isolated_s: Mapping[str, float]
    overlap_w: float
    spread: tuple[float, ...]

    @property
    def said(self) -> tuple[str, ...]:
        """What a user should know of the profiles, such as that the machine was busy."""
        return tuple(words for intake in self.intakes.values() for words in intake.said)

    def described(self) -> dict[str, Any]:
        """What a log carries of it: for every model the class and the seconds of each block on one lane."""
        narrow = len(self.lanes[0])
        return {
            key: {
                "classes": [block_class(block.operators) for block in intake.profile.blocks],
                "seconds": list(intake.profile.seconds(narrow)),
                "isolated_s": self.isolated_s[key],
            }
            for key, intake in self.intakes.items()
        }


def block_class(operators: Sequence[str]) -> str:
    """The kind of work that rules a block, by its operators."""
    for name, parts in _CLASSES.items():
        if any(part in operator for operator in operators for part in parts):
            return name
    return "other"


def measure(
    scenario: Scenario,
    device: Device,
    models: Mapping[str, int],
    say: Step,
    *,
    fresh: bool,
    most_batch: Mapping[str, int] = MappingProxyType({}),
) -> Measured:
    """Take in every model; `models` gives for each the position of a tenant that runs it, `most_batch` how
    many of its requests may run together, if more than one.

    Raises HeadwayError if the lanes have more threads than this machine, or a model cannot be run.
    """
    hardware = scenario.hardware
    assert isinstance(hardware, LaneHardware)
    lanes = processors_of(device)
    say("measuring dispatch, switch and overlap")
    overheads = overheads_on(lanes, fresh=fresh)
    intakes: dict[str, Intake] = {}
    for key, position in models.items():
        say(f"splitting and measuring {key}")
        intakes[key] = _take_in(scenario, position, key, lanes, most_batch.get(key, 1))
    limits = limits_of(device) if hardware.overlap == "predicted" else None
    tables = {key: lane_table(intake.profile, device, overheads, limits) for key, intake in intakes.items()}
    return Measured(
        lanes,
        intakes,
        overheads,
        tables,
        {key: table.isolated_s for key, table in tables.items()},
        overheads.overlap_w if hardware.overlap_w is None else hardware.overlap_w,
        tuple(
            sample_s / timing.median_s
            for intake in intakes.values()
            for block in intake.profile.blocks
            for timing in block.seconds.values()
            for sample_s in timing.samples_s
            if timing.median_s > 0.0
        )
        or (1.0,),
    )


def limits_of(device: Device) -> DeviceLimits:
    """What all lanes of a processor can do together, as this machine was calibrated, or as it is shipped."""
    from headway.predict.pressures import processor_limits
    from headway.wiring.calibration import known_latency

    return processor_limits(known_latency()[0], sum(core.threads for core in device.cores))


def lane_table(
    profile: ModelProfile, device: Device, overheads: DeviceProfile, limits: DeviceLimits | None = None
) -> LaneTable:
    """The cost table of a measured model; with `limits` it says what blocks press on, where that is known."""
    works = [block.work for block in profile.blocks if block.work is not None]
    if limits is None or len(works) < len(profile.blocks):
        return LaneTable(profile, device, overheads)
    from headway.predict.pressures import lane_pressures

    threads, count = device.cores[0].threads, len(device.cores)
    slowdowns = [block.slowdowns for block in profile.blocks]
    pressures = {
        lanes: lane_pressures(
            profile.model, lanes, count, works, profile.seconds(lanes * threads), limits, slowdowns
        )
        for lanes in range(1, count + 1)
        if lanes * threads in profile.widths
    }
    return LaneTable(profile, device, overheads, pressures)


def processors_of(device: Device) -> tuple[tuple[int, ...], ...]:
    """The processors of each lane, in order."""
    there = available()
    wanted = sum(core.threads for core in device.cores)
    if wanted > len(there):
        raise HeadwayError(
            f"hardware {device.name!r}: {len(device.cores)} lanes of {device.cores[0].threads} threads need"
            f" {wanted} processors; this process may use {len(there)}"
        )
    lanes, at = [], 0
    for core in device.cores:
        lanes.append(tuple(there[at : at + core.threads]))
        at += core.threads
    return tuple(lanes)


def widths_of(lanes: Sequence[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    """The widths to measure, with their processors: one lane, two, four, ..., and all of them."""
    counts = {len(lanes)}
    count = 1
    while count < len(lanes):
        counts.add(count)
        count *= 2
    joined = {n: tuple(processor for lane in lanes[:n] for processor in lane) for n in counts}
    return {len(processors): processors for processors in joined.values()}


def _take_in(
    scenario: Scenario, position: int, key: str, lanes: Sequence[Sequence[int]], most_batch: int
) -> Intake:
    tenant = scenario.tenants[position]
    path = scenario.model_path(tenant)
    beside = lanes[1] if len(lanes) > 1 else ()
    try:
        if path is not None:
            if path.suffix.lower() != ".onnx":
                raise HeadwayError(f"{path}: a layer table has no weights to run with; accepted: .onnx")
            return take_in(
                path,
                widths_of(lanes),
                name=key,
                dims=tenant.dims,
                cache=ProfileCache(),
                probed_beside=beside,
                most_batch=most_batch,
            )
        return take_in(
            zoo_source(tenant.model, tenant.options, most_batch),
            widths_of(lanes),
            name=key,
            cache=ProfileCache(),
            probed_beside=beside,
            most_batch=most_batch,
        )
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('tenants', position, 'model')}: {error}") from None


def overheads_on(lanes: tuple[tuple[int, ...], ...], *, fresh: bool) -> DeviceProfile:
    """The overheads of lanes: as measured before on these, or anew, and then kept."""
    digest = sha256(repr((MEANING, lanes, machine(), runtime())).encode()).hexdigest()[:20]
    path = cache_folder() / f"lanes-{digest}.json"
    if not fresh and path.is_file():
        try:
            return DeviceProfile.from_json(path.read_bytes(), str(path))
        except HeadwayError as error:
            warnings.warn(f"{error}; measured again", stacklevel=2)
    found = measure_dispatch(lanes)
    profile = replace(
        measure_overheads(lanes),
        dispatch_s=found.cold_s,
        warm_dispatch_s=found.warm_s,
        cold_after_s=found.cold_after_s,
    )
    try:
        write_text(path, profile.to_json())
    except OSError as error:
        warnings.warn(f"{path}: cannot be written ({error.strerror}); measured again next time", stacklevel=2)
    return profile
