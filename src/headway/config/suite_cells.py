"""What a cell of a suite says, as plain data that a scenario is made from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import PydanticCustomError

from headway.config.model_sets import ModelSet, target_s, targets
from headway.config.quantities import DURATION, closest
from headway.config.validation import shown
from headway.core.errors import HeadwayError

_LONGEST_NAME: Final = 64

TEMPLATES: Final[dict[str, dict[str, Any]]] = {
    "poisson": {},
    "uniform": {},
    "periodic": {},
    # Bursts take a fifth of the time, are four times as dense as the lulls between them, and have about 25
    # requests at a share of 1, whatever the load, since a load divides all times alike.
    "mmpp": {"burst_ratio": 4.0, "mean_on": "10 s", "mean_off": "40 s"},
    "moca-streams": {},
}
"""Processes that a suite may name, with what it adds to a rate where the suite says nothing."""

OWN: Final = "own"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a suite's matrix, seeds and policies apart.

    `name` is unique in its suite and fit for the name of a file. `coordinates` has the value of every axis:
    `models`, `hardware`, `qos`, `load` (None without one), `arrivals`, `priorities`, and every place of the
    suite's `over`. `document` is the cell as a scenario file has it, without seed and policy; `changes` are
    those of `over`.
    """

    name: str
    coordinates: Mapping[str, str | float | None]
    document: Mapping[str, Any]
    changes: Mapping[str, Any]


def hardware_label(hardware: str | Mapping[str, Any]) -> str:
    """What a cell calls its hardware: its name, else that of the preset or the file."""
    if isinstance(hardware, str):
        return hardware
    return str(hardware.get("name", hardware.get("preset", "hardware")))


def arrivals_label(arrivals: str | Mapping[str, Any]) -> str:
    """What a cell calls its arrivals: their name, else that of the process."""
    return arrivals if isinstance(arrivals, str) else str(arrivals.get("name", arrivals.get("process", "")))


def value_label(value: object) -> str:
    """A value of `over` in words."""
    return "none" if value is None else str(value)


def cell_name(parts: list[str]) -> str:
    """The parts as one name of a scenario; cut, with a checksum, where it would be too long."""
    name = "_".join(re.sub(r"[^A-Za-z0-9.-]+", "", part) for part in parts)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What the tenants of a cell are given where they have nothing of their own.

    `isolated` or `table` is what deadlines are at a QoS of 1, `qos` their factor; `arrivals` is a process
    with its fields, or None for the tenants' own. Errors say `where` first.
    """

    isolated: float | None
    table: str | None
    qos: float
    arrivals: Mapping[str, Any] | None
    priorities: str
    where: str

    def tenants(self, models: ModelSet) -> list[dict[str, Any]]:
        """The tenants of a set as a scenario has them. Raises HeadwayError for what does not go together."""
        made: list[dict[str, Any]] = []
        for entry in models.tenants:
            tenant = {"model": entry} if isinstance(entry, str) else dict(entry)
            if not isinstance(tenant.get("model"), str):
                raise HeadwayError(
                    f"{self.where}: set {models.name!r}: found {shown(entry)}; accepted: a model's name, or a"
                    " mapping with model"
                )
            share = tenant.pop("share", 1.0)
            named = {"name": tenant.get("name") or _tenant_name(tenant["model"], made)}
            terms = {"sla": self._sla(models, tenant), "arrivals": self._arrivals(models, tenant, share)}
            priority = {} if self.priorities == "none" else {"priority": {"draw": self.priorities}}
            made.append(named | tenant | terms | priority)
        return made

    def _sla(self, models: ModelSet, tenant: Mapping[str, Any]) -> dict[str, Any]:
        own = tenant.get("sla")
        sla: dict[str, Any] = dict(own) if isinstance(own, Mapping) else {}
        if "deadline" in sla or "isolated" in sla:
            # What is no time or number here is told when the scenario is checked.
            with suppress(PydanticCustomError):
                if "deadline" in sla:
                    sla["deadline"] = DURATION.format(DURATION.parse(sla["deadline"]) * self.qos)
            if isinstance(sla.get("isolated"), (int, float)):
                sla["isolated"] = sla["isolated"] * self.qos
        elif self.table is None:
            sla["isolated"] = (self.isolated or 0.0) * self.qos
        else:
            deadline_s = target_s(self.table, tenant["model"])
            if deadline_s is None:
                known = ", ".join(targets()[self.table].deadlines)
                raise HeadwayError(
                    f"{self.where}: set {models.name!r}: table {self.table} has no deadline for"
                    f" {tenant['model']}; it has {known}"
                )
            sla["deadline"] = DURATION.format(deadline_s * self.qos)
        return sla

    def _arrivals(self, models: ModelSet, tenant: Mapping[str, Any], share: object) -> Any:
        own = tenant.get("arrivals")
        where = f"{self.where}: set {models.name!r}: {tenant['model']}"
        if self.arrivals is None:
            if own is None:
                raise HeadwayError(
                    f"{where} has no arrivals; accepted under arrivals own: tenants with arrivals"
                )
            return own
        if own is not None:
            raise HeadwayError(f"{where} has arrivals of its own; accepted for this set: arrivals own")
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1e6:
            raise HeadwayError(f"{where}: share: found {shown(share)}; accepted: a number above 0")
        if self.arrivals["process"] == "moca-streams":
            return {"process": "moca-streams", "share": float(share)}
        return {**self.arrivals, "rate": f"{share:g} /s"}


def process_of(arrivals: str | Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """An entry of a suite's arrivals as a process with its fields, None for the tenants' own."""
    if arrivals == OWN:
        return None
    given = {"process": arrivals} if isinstance(arrivals, str) else dict(arrivals)
    given.pop("name", None)
    process = given.get("process")
    if not isinstance(process, str) or process not in TEMPLATES:
        near = closest(process, TEMPLATES) if isinstance(process, str) else ""
        raise HeadwayError(
            f"{where}: found {shown(process)}{near}; accepted: {', '.join(TEMPLATES)}, own, or a mapping with"
            " process"
        )
    for field in ("rate", "period"):
        if field in given:
            raise HeadwayError(f"{where}: {field} is not accepted: rates follow from shares and loads")
    return {**TEMPLATES[process], **given}


def _tenant_name(model: str, others: list[dict[str, Any]]) -> str:
    """A name for the tenant of a model, unlike those of the others."""
    stem = model.rpartition("#")[2].rpartition("/")[2]
    base = re.sub(r"[^A-Za-z0-9]+", "-", stem).strip("-")[:56] or "tenant"
    taken = {str(other["name"]) for other in others}
    return next(
        name
        for name in (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
        if name not in taken
    )
