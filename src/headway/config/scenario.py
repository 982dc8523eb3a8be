"""The scenario: tenants, hardware, policy and seed. One file drives every command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os.path import relpath
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from headway.config.arrivals import After, AnyArrivals, Closed, MocaStream, RandomArrivals, Streams
from headway.config.decision_time import DecisionTime
from headway.config.hardware import AnyHardware, check_hardware, hardware_document
from headway.config.lanes import LaneHardware, StreamHardware
from headway.config.noise import Noise
from headway.config.overrides import merged, with_changes
from headway.config.quantities import Duration, closest
from headway.config.tenants import Tenant
from headway.config.traces import Trace
from headway.config.validation import Name, Positive, Strict, exactly_one, mistake, shown, validate
from headway.config.warmup import Warmup, WarmupField
from headway.config.yaml_file import Document, Place, read_yaml
from headway.core.device import Device
from headway.core.errors import HeadwayError

MOST_REQUESTS = 10_000_000
MOST_TENANTS = 1000


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a scenario came from, for messages and relative paths; equal scenarios may differ in it."""

    document: Document = field(default=Document("scenario", {}), compare=False)
    folder: Path = field(default=Path(), compare=False)


class Scenario(Strict):
    """Tenants with their SLAs and arrivals on a piece of hardware, under a policy.

    The file gives `hardware` as a preset's name, a path relative to the scenario, a description in place, or
    `{preset: NAME, ...}` with changes to a preset; once loaded it is the full description.
    """

    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    hardware: AnyHardware
    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}$")] = "lucas"
    duration: Annotated[Duration | None, Field(description="Arrivals stop then; give this or requests.")] = (
        None
    )
    requests: Annotated[
        int | None,
        Field(
            ge=1, le=MOST_REQUESTS, description="Arrivals in all, in order of time; give this or duration."
        ),
    ] = None
    offered_load: Annotated[
        Positive | None,
        Field(
            alias="load",
            description="Offered load, as a share of the tighter of compute and bandwidth capacity under"
            " layer-by-layer execution: all arrival times are divided by one factor to meet it. Without it"
            " rates are as they stand.",
        ),
    ] = None
    streams: Annotated[
        Streams | None, Field(description="Of the tenants with moca-streams; by default MoCA's.")
    ] = None
    warmup: WarmupField = Warmup(share=0.1)
    contention: Annotated[
        Literal["max-min", "proportional"],
        Field(
            description="How runs share DRAM bandwidth that does not suffice for all; on lanes their overlap"
            " loss says what they do to each other."
        ),
    ] = "max-min"
    noise: Noise = Noise()
    decision_time: Annotated[
        DecisionTime, Field(description="What a decision takes in the simulator; by default no time.")
    ] = DecisionTime()
    tenants: Annotated[tuple[Tenant, ...], Field(strict=False, json_schema_extra={"minItems": 1})]

    _origin: _Origin = PrivateAttr(default=_Origin())

    @classmethod
    def load(cls, path: str | Path) -> Scenario:
        """Read and check a scenario file.

        Raises HeadwayError naming file, line and field for whatever is wrong, model files that are not
        there included.
        """
        path = Path(path)
        scenario = cls._checked(read_yaml(path), path.parent)
        for position, tenant in enumerate(scenario.tenants):
            file = tenant.model_file(path.parent)
            if file is not None and not file.is_file():
                raise HeadwayError(f"{scenario.where('tenants', position, 'model')}: no file {file}")
            process = scenario.arrivals_of(tenant)
            if isinstance(process, Trace) and not Path(process.file).is_file():
                place = ("tenants", position, "arrivals", "file")
                raise HeadwayError(f"{scenario.where(*place)}: no file {process.file}")
        return scenario

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, Any], base_dir: str | Path = ".", *, name: str = "scenario"
    ) -> Scenario:
        """Check a scenario given as plain data of the same form as the file.

        Paths in it are relative to `base_dir`; `name` stands for the file in messages.
        """
        return cls._checked(Document(name, dict(data)), Path(base_dir))

    @classmethod
    def _checked(cls, document: Document, folder: Path) -> Scenario:
        scenario = validate(cls, with_hardware(document, folder))
        scenario._origin = _Origin(document, folder)
        return scenario

    @model_validator(mode="after")
    def _check_tenants(self) -> Scenario:
        if not self.tenants:
            raise mistake("found an empty list; accepted: at least one tenant", "tenants")
        if len(self.tenants) > MOST_TENANTS:
            raise mistake(f"{len(self.tenants)} tenants; at most {MOST_TENANTS} are accepted", "tenants")
        seen: dict[str, int] = {}
        for position, tenant in enumerate(self.tenants):
            if tenant.name in seen:
                raise mistake(
                    f"tenant name {tenant.name!r} is already taken by tenants[{seen[tenant.name]}]",
                    "tenants",
                    position,
                    "name",
                )
            seen[tenant.name] = position
        return self

    @model_validator(mode="after")
    def _check_length(self) -> Scenario:
        exactly_one(self.duration, self.requests, 'duration ("2 s") and requests (1000)')
        roots = [tenant for tenant in self.tenants if not isinstance(tenant.arrivals, After)]
        closed = [isinstance(tenant.arrivals, Closed) for tenant in roots]
        if self.requests is not None and any(closed) and not all(closed):
            raise mistake(
                "cannot be counted alike for every policy when some tenants are closed loops and others"
                " are not; give duration instead",
                "requests",
            )
        if self.offered_load is not None and any(closed):
            raise mistake(
                "closed loops take what they get and cannot be brought to a load; give all tenants other"
                " arrivals, or leave it out",
                "load",
            )
        if self.duration is not None:
            rates = [t.arrivals.mean_rate for t in self.tenants if isinstance(t.arrivals, RandomArrivals)]
            expected = 0.0 if self.offered_load is not None else self.duration * sum(rates)
            if expected > MOST_REQUESTS:
                raise mistake(
                    f"about {expected:.3g} requests would arrive; at most {MOST_REQUESTS} are accepted:"
                    " shorten it or lower the rates",
                    "duration",
                )
            if (self.warmup.seconds or 0.0) >= self.duration:
                raise mistake("must be shorter than duration", "warmup")
        return self

    @model_validator(mode="after")
    def _check_parents(self) -> Scenario:
        tenants = {tenant.name: tenant for tenant in self.tenants}
        for position, tenant in enumerate(self.tenants):
            seen = [tenant.name]
            process = tenant.arrivals
            place = ("tenants", position, "arrivals", "parent")
            while isinstance(process, After):
                if process.parent not in tenants:
                    raise mistake(
                        f"no tenant named {process.parent!r}{closest(process.parent, tenants)};"
                        f" accepted: {', '.join(tenants)}",
                        *place,
                    )
                if process.parent in seen:
                    raise mistake(f"goes in a circle: {' after '.join([*seen, process.parent])}", *place)
                seen.append(process.parent)
                process = tenants[process.parent].arrivals
        return self

    @model_validator(mode="after")
    def _check_streams(self) -> Scenario:
        if self.streams is not None and not any(isinstance(t.arrivals, MocaStream) for t in self.tenants):
            raise mistake("no tenant has arrivals of the process moca-streams", "streams")
        return self

    @model_validator(mode="after")
    def _check_batching(self) -> Scenario:
        if isinstance(self.hardware, LaneHardware | StreamHardware):
            return self
        for position, tenant in enumerate(self.tenants):
            if tenant.batching is not None:
                raise mistake(
                    "an accelerator takes one request per run; accepted: lanes or streams, or a model whose"
                    " own batch is larger",
                    "tenants",
                    position,
                    "batching",
                )
        return self

    def device(self) -> Device:
        """The device that `hardware` describes."""
        return self.hardware.device()

    @property
    def warmup_end_s(self) -> float | None:
        """Requests that arrive before this time are warm-up.

        None for a share without `duration`: that counts from 0 to the last arrival, which only the log knows,
        since replies decide when a closed loop's requests come.
        """
        if self.warmup.seconds is not None:
            return self.warmup.seconds
        return None if self.duration is None else self.warmup.share * self.duration

    def model_path(self, tenant: Tenant) -> Path | None:
        """The file of a tenant's model; None for a zoo model."""
        return tenant.model_path(self._origin.folder)

    def arrivals_of(self, tenant: Tenant) -> AnyArrivals:
        """A tenant's arrivals, a trace with the path of its file."""
        process = tenant.arrivals
        if not isinstance(process, Trace):
            return process
        return process.model_copy(update={"file": str(self._origin.folder / process.file)})

    def where(self, *place: str | int) -> str:
        """``file:line: place`` of a field, for messages: ``where("tenants", 0, "model")``."""
        return self._origin.document.where(place)

    def to_mapping(self, folder: Path | None = None) -> dict[str, Any]:
        """Plain data, with hardware in full, that `from_mapping` turns into an equal scenario.

        Paths of models and traces stay as they are or, for a file to lie in `folder`, lead from there.
        """
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        if folder is not None:
            for tenant, item in zip(self.tenants, data["tenants"], strict=True):
                model, process = self.model_path(tenant), self.arrivals_of(tenant)
                if model is not None:
                    item["model"] = _path_from(folder, model)
                if isinstance(process, Trace):
                    item["arrivals"]["file"] = _path_from(folder, Path(process.file))
        return data

    def with_overrides(self, changes: Mapping[str, Any]) -> Scenario:
        """A checked copy with some fields changed.

        Keys are places such as ``seed``, ``hardware.dram.bandwidth`` or ``tenants.camera.sla.isolated``
        (tenants by name or position). None takes a field away; whatever is new is checked as in a file.
        """
        data = self.to_mapping()
        if "hardware" in changes:  # first, so that changes to its fields apply to the new one
            data["hardware"] = changes["hardware"]
            data = with_hardware(Document("changes", data), self._origin.folder).data
        changes = {place: value for place, value in changes.items() if place != "hardware"}
        return self.from_mapping(
            with_changes(data, changes),
            self._origin.folder,
            name=f"{self._origin.document.name} with changes",
        )


def _path_from(folder: Path, path: Path) -> str:
    """A path as a file in `folder` has to give it."""
    return str(path) if path.is_absolute() else Path(relpath(path, folder)).as_posix()


def with_hardware(document: Document, folder: Path) -> Document:
    """The document with its hardware in full, in place of a name, a path, or changes to a preset."""
    data = document.data
    given = data.get("hardware") if isinstance(data, dict) else None
    changes: dict[str, Any] = {}
    if isinstance(given, dict) and "preset" in given:
        changes = {key: value for key, value in given.items() if key != "preset"}
        place: Place = ("hardware", "preset")
        given = given["preset"]
        if not isinstance(given, str):
            raise HeadwayError(
                f"{document.where(place)}: found {shown(given)}; accepted: a preset's name or a path"
            )
    elif isinstance(given, str):
        place = ("hardware",)
    elif given is None or isinstance(given, dict):
        return document
    else:
        raise HeadwayError(
            f"{document.where(('hardware',))}: found {shown(given)};"
            " accepted: a preset's name, a path or a description"
        )
    try:
        base = hardware_document(given, folder)
        check_hardware(base)
    except HeadwayError as error:
        raise HeadwayError(f"{document.where(place)}: {error}") from None
    return Document(document.name, {**data, "hardware": merged(base.data, changes)}, document.lines)
