"""What a server serves: models, a repository, tenants with their keys, SLAs and bounds, on lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from headway.config.hardware import AnyHardware
from headway.config.lanes import LaneHardware
from headway.config.quantities import Duration, closest
from headway.config.scenario import MOST_TENANTS, Scenario, with_hardware
from headway.config.serving_parts import (
    AccessLog,
    EventLog,
    KeyHash,
    Listen,
    Repository,
    ServedModel,
    ServedTenant,
    Tracing,
)
from headway.config.tenants import Tenant
from headway.config.validation import Name, Strict, mistake, validate
from headway.config.yaml_file import Document, parse_yaml, read_yaml
from headway.core.errors import HeadwayError

DEFAULT_POLICY = "headway"

ANONYMOUS = "anonymous"
"""The tenant of requests to a server without keys."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a configuration came from, for messages and relative paths."""

    document: Document = field(default=Document("serving", {}), compare=False)
    folder: Path = field(default=Path(), compare=False)


class Serving(Strict):
    """The configuration of a server."""

    name: Name = "headway"
    hardware: AnyHardware
    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}$")] = DEFAULT_POLICY
    listen: Listen = Listen()
    models: Annotated[tuple[ServedModel, ...], Field(strict=False)] = ()
    repository: Repository | None = None
    tenants: Annotated[
        tuple[ServedTenant, ...],
        Field(strict=False, description="Without any, and where none has keys, everybody is anonymous."),
    ] = ()
    admission: Annotated[
        Literal["predicted", "policy"],
        Field(
            description="Whether a request that will be late by what is known at its arrival is refused at"
            " once, or the policy alone decides."
        ),
    ] = "predicted"
    control_keys: Annotated[
        tuple[KeyHash, ...],
        Field(strict=False, description="Of those who may load and unload models, besides admin tenants."),
    ] = ()
    drain: Annotated[
        Duration, Field(description="How long requests may still take once the end is asked for.")
    ] = 30.0
    log: EventLog | None = None
    access_log: AccessLog | None = None
    tracing: Tracing | None = None

    _origin: _Origin = PrivateAttr(default=_Origin())

    @classmethod
    def load(cls, path: str | Path, changes: Mapping[str, Any] | None = None) -> Serving:
        """Read and check a serving file, or a scenario, whose tenants are then served without keys.

        `changes` go before what the file says: other fields, or single ones of `listen`. Raises HeadwayError
        naming file, line and field for whatever is wrong, files that are not there included.
        """
        path = Path(path)
        document = read_yaml(path)
        if _is_scenario(document.data):
            return cls.of_scenario(Scenario.load(path), path.parent, changes)
        if isinstance(document.data, dict):
            document = Document(document.name, _changed(document.data, changes), document.lines)
        return cls._checked(document, path.parent)

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, Any], base_dir: str | Path = ".", *, name: str = "serving"
    ) -> Serving:
        """Check a configuration given as plain data; paths in it are relative to `base_dir`."""
        return cls._checked(Document(name, dict(data)), Path(base_dir))

    @classmethod
    def from_yaml(cls, text: str, base_dir: str | Path = ".", *, name: str = "serving") -> Serving:
        """Check a configuration given as YAML text."""
        return cls._checked(parse_yaml(text, name), Path(base_dir))

    @classmethod
    def of_scenario(
        cls, scenario: Scenario, base_dir: str | Path = ".", changes: Mapping[str, Any] | None = None
    ) -> Serving:
        """What serves a scenario's tenants: their models, named as they are there, and their SLAs.

        Arrivals are the clients' own. A tenant's model is served under the tenant's name, since several
        tenants may have the same model in other shapes.
        """
        data: dict[str, Any] = {
            "name": scenario.name,
            "hardware": scenario.to_mapping()["hardware"],
            "policy": scenario.policy,
            "models": [_model_of(tenant) for tenant in scenario.tenants],
            "tenants": [_tenant_of(tenant) for tenant in scenario.tenants],
        }
        return cls.from_mapping(_changed(data, changes), base_dir, name=scenario.name)

    @classmethod
    def _checked(cls, document: Document, folder: Path) -> Serving:
        serving = validate(cls, with_hardware(document, folder))
        serving._origin = _Origin(document, folder)
        serving._check_files()
        return serving

    @model_validator(mode="after")
    def _check_hardware(self) -> Serving:
        if not isinstance(self.hardware, LaneHardware):
            raise mistake(
                f"{self.hardware.name!r} is an accelerator and can only be simulated; accepted: lanes of this"
                " machine, such as the preset cpu-lanes",
                "hardware",
            )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Serving:
        if not self.models and self.repository is None:
            raise mistake("found neither models nor a repository; accepted: one of them, or both", "models")
        if len(self.tenants) > MOST_TENANTS:
            raise mistake(f"{len(self.tenants)} tenants; at most {MOST_TENANTS} are accepted", "tenants")
        named: tuple[tuple[str, Sequence[ServedModel | ServedTenant]], ...] = (
            ("models", self.models),
            ("tenants", self.tenants),
        )
        for kind, items in named:
            seen: dict[str, int] = {}
            for position, item in enumerate(items):
                if item.name in seen:
                    raise mistake(
                        f"name {item.name!r} is already taken by {kind}[{seen[item.name]}]",
                        kind,
                        position,
                        "name",
                    )
                seen[item.name] = position
        owners: dict[str, str] = {}
        for position, tenant in enumerate(self.tenants):
            for at, key in enumerate(tenant.keys):
                if key in owners:
                    raise mistake(
                        f"this key is already that of tenant {owners[key]!r}; accepted: each key once",
                        "tenants",
                        position,
                        "keys",
                        at,
                    )
                owners[key] = tenant.name
        return self

    @model_validator(mode="after")
    def _check_references(self) -> Serving:
        if self.repository is not None:
            return self  # what it holds is not known yet
        known = {model.name: model for model in self.models}
        for position, tenant in enumerate(self.tenants):
            listed = tenant.models if isinstance(tenant.models, tuple) else ()
            places: list[tuple[tuple[str | int, ...], str]] = [
                *((("models", at), name) for at, name in enumerate(listed)),
                *((("slas", name), name) for name in tenant.slas),
            ]
            for place, name in places:
                if name not in known:
                    raise mistake(
                        f"no model named {name!r}{closest(name, known)}; accepted: {', '.join(known)}",
                        "tenants",
                        position,
                        *place,
                    )
        return self

    def _check_files(self) -> None:
        for position, model in enumerate(self.models):
            path = self.model_path(model)
            if path is not None and not path.is_file():
                raise HeadwayError(f"{self.where('models', position, 'model')}: no file {path}")
            for output, file in model.labels.items():
                if not (self._origin.folder / file).is_file():
                    where = self.where("models", position, "labels", output)
                    raise HeadwayError(f"{where}: no file {self._origin.folder / file}")
        folder = self.repository_path
        if folder is not None and not folder.is_dir():
            raise HeadwayError(f"{self.where('repository', 'path')}: no folder {folder}")

    @property
    def lanes(self) -> LaneHardware:
        """Its hardware, which can only be lanes."""
        assert isinstance(self.hardware, LaneHardware)
        return self.hardware

    @property
    def has_keys(self) -> bool:
        """Whether requests need a key."""
        return any(tenant.keys for tenant in self.tenants)

    @property
    def folder(self) -> Path:
        """The folder from which relative paths lead."""
        return self._origin.folder

    def model_path(self, model: ServedModel) -> Path | None:
        """The file of a model; None for a zoo model."""
        return self._origin.folder / model.source if model.is_file else None

    @property
    def repository_path(self) -> Path | None:
        """The repository's folder, if there is one."""
        return None if self.repository is None else self._origin.folder / self.repository.path

    @property
    def upload_bytes(self) -> int:
        """The most that the files of a load request may have; 0 if none are taken."""
        settings = self.repository
        return int(settings.upload_size) if settings is not None and settings.uploads else 0

    def where(self, *place: str | int) -> str:
        """``file:line: place`` of a field, for messages."""
        return self._origin.document.where(place)


def _changed(data: Mapping[str, Any], changes: Mapping[str, Any] | None) -> dict[str, Any]:
    changed = {**data, **(changes or {})}
    before = data.get("listen")
    if changes and "listen" in changes and isinstance(before, dict):
        changed["listen"] = {**before, **changes["listen"]}
    return changed


def _is_scenario(data: Any) -> bool:
    """Whether this is a scenario: its tenants have arrivals, or it says how long they last."""
    if not isinstance(data, dict):
        return False
    tenants = data.get("tenants")
    has_arrivals = isinstance(tenants, list) and any(isinstance(t, dict) and "arrivals" in t for t in tenants)
    return has_arrivals or "duration" in data or "requests" in data


def _model_of(tenant: Tenant) -> dict[str, Any]:
    choices = {key: value for key, value in (("dims", tenant.dims), ("options", tenant.options)) if value}
    return {"name": tenant.name, "model": tenant.model, **choices}


def _tenant_of(tenant: Tenant) -> dict[str, Any]:
    data = tenant.model_dump(mode="json", by_alias=True, exclude_none=True)
    kept: dict[str, Any] = {
        key: data[key] for key in ("name", "sla", "class", "weight", "expires") if key in data
    }
    if isinstance(tenant.priority, int):  # what is drawn for each request has no place in a server
        kept["priority"] = tenant.priority
    return {**kept, "models": [tenant.name]}
