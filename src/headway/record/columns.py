"""The two views of a log that everything else is computed from: its requests, and its stretches of work."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.core.run import Outcome
from headway.record.log import LogTable

_ROUNDING_S: Final = 1e-9  # far less than any stretch of work

UNFINISHED: Final = "unfinished"
LATE: Final = "late"
IN_TIME: Final = "in time"
ENDINGS: Final = (
    IN_TIME,
    LATE,
    Outcome.DROPPED.value,
    Outcome.REJECTED.value,
    Outcome.FAILED.value,
    Outcome.CANCELLED.value,
    UNFINISHED,
)


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """One entry per request, in order of arrival.

    `end_s` is NaN for unfinished requests, `deadline_s` infinite where there is none. `ending` is a
    position in `ENDINGS`. `tenant` and `model` are positions in `tenants` and `models`.
    """

    id: NDArray[np.int64]
    tenant: NDArray[np.int32]
    model: NDArray[np.int32]
    arrival_s: NDArray[np.float64]
    deadline_s: NDArray[np.float64]
    isolated_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    ending: NDArray[np.int64]
    tenants: tuple[str, ...]
    models: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.id)

    @property
    def turnaround_s(self) -> NDArray[np.float64]:
        """Reply minus arrival, NaN for unfinished requests."""
        return self.end_s - self.arrival_s

    @property
    def completed(self) -> NDArray[np.bool_]:
        """Which requests were done, in time or late."""
        return self.ending <= ENDINGS.index(LATE)

    def only(self, chosen: NDArray[np.bool_]) -> Requests:
        """The requests that a mask chooses."""
        return _only(self, chosen)


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """One entry per progress row, in the order of the log: what kept which cores busy from when to when.

    `lost` marks work that was thrown away by a kill. `mode` and `cores` are positions in `modes` and
    `core_sets`; `core_sets` holds tuples of core indices. The work of a batch is one entry, under one of its
    requests; `by_request` divides it.
    """

    run: NDArray[np.int64]
    request: NDArray[np.int64]
    tenant: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    first_block: NDArray[np.int64]
    end_block: NDArray[np.int64]
    share: NDArray[np.float64]
    lost: NDArray[np.bool_]
    mode: NDArray[np.int32]
    cores: NDArray[np.int32]
    dram_bytes: NDArray[np.float64]
    link_bytes: NDArray[np.float64]
    energy_pj: NDArray[np.float64]
    macs: NDArray[np.float64]
    tenants: tuple[str, ...]
    modes: tuple[str, ...]
    core_sets: tuple[tuple[int, ...], ...]
    shared_by: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.run)

    def only(self, chosen: NDArray[np.bool_]) -> Stretches:
        """The stretches that a mask chooses."""
        return _only(self, chosen)

    @property
    def core_seconds(self) -> NDArray[np.float64]:
        """Busy time of all the cores of each stretch together."""
        widths = np.array([len(indices) for indices in self.core_sets], dtype=np.float64)
        seconds = (self.end_s - self.start_s) * widths[self.cores]
        return seconds if self.shared_by is None else seconds / self.shared_by

    def per_core(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each stretch once for every core that it used: the core indices, and the stretches' positions."""
        widths = np.array([len(indices) for indices in self.core_sets], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(widths)))[:-1]
        flat = np.array([core for indices in self.core_sets for core in indices], dtype=np.int64)
        repeats = widths[self.cores]
        positions = np.repeat(np.arange(len(self)), repeats)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return flat[np.repeat(starts[self.cores], repeats) + within], positions


_Entries = TypeVar("_Entries", Requests, Stretches)


def _only(entries: _Entries, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> _Entries:
    """The entries that a mask or positions choose: every array is cut, the names are kept."""
    columns = {field.name: getattr(entries, field.name) for field in fields(entries)}
    cut: dict[str, Any] = {
        name: column[chosen] for name, column in columns.items() if isinstance(column, np.ndarray)
    }
    return replace(entries, **cut)


def requests_of(log: LogTable) -> Requests:
    """The requests of a log, each with how it ended. A second reply to a request is disregarded."""
    arrivals, replies = log.where("arrive"), log.where("reply")
    ids = log.integers("request")[arrivals]
    deadline_s = np.nan_to_num(log.floats("deadline_s")[arrivals], nan=np.inf, posinf=np.inf)
    end_s = np.full(len(ids), np.nan)
    ending = np.full(len(ids), ENDINGS.index(UNFINISHED))
    if len(ids) and len(replies):
        order = np.argsort(ids, kind="stable")
        replied, first = np.unique(log.integers("request")[replies], return_index=True)
        slot = np.minimum(np.searchsorted(ids[order], replied), len(ids) - 1)
        known = ids[order][slot] == replied
        at, rows = order[slot[known]], replies[first[known]]
        end_s[at] = log.floats("time_s")[rows]
        codes, outcomes = log.codes("outcome")
        names = [IN_TIME if outcome == Outcome.DONE else outcome for outcome in outcomes]
        ending[at] = np.array([ENDINGS.index(name) for name in names])[codes[rows]]
        ending[(ending == ENDINGS.index(IN_TIME)) & (end_s > deadline_s)] = ENDINGS.index(LATE)
    tenant, tenants = log.codes("tenant")
    model, models = log.codes("model")
    return Requests(
        ids,
        tenant[arrivals],
        model[arrivals],
        log.floats("time_s")[arrivals],
        deadline_s,
        log.floats("isolated_s")[arrivals],
        end_s,
        ending,
        tenants,
        models,
    )


def warmup_end_s(log: LogTable) -> float:
    """Requests that arrived before this time are warm-up: a time that the log's description gives, or else a
    share of the time until the last arrival: that of a root, since when those after it come is the policy's.
    """
    given = log.metadata.get("warmup_s")
    if given is not None:
        return float(given)
    return float(log.metadata.get("warmup_share", 0.0)) * _last_root_s(log)


def _last_root_s(log: LogTable) -> float:
    """The last arrival; requests of cascades count as arriving with their root, as their deadlines do."""
    arrivals = log.where("arrive")
    if not len(arrivals):
        return 0.0
    arrived_s = log.floats("time_s")[arrivals]
    tenant, names = log.codes("tenant")
    given_s = {each["name"]: each.get("relative_deadline_s") for each in log.metadata.get("tenants", ())}
    relative_s = np.array([*(given_s.get(name) or np.nan for name in names), np.nan])[tenant[arrivals]]
    root_s = log.floats("deadline_s")[arrivals] - relative_s
    return float(np.where(root_s < arrived_s - _ROUNDING_S, root_s, arrived_s).max())


def stretches_of(log: LogTable) -> Stretches:
    """The stretches of work of a log."""
    rows = log.where("progress")
    tenant, tenants = log.codes("tenant")
    mode, modes = log.codes("mode")
    cores, core_sets = log.codes("cores")
    reason, reasons = log.codes("reason")
    lost = np.array([*(name == "lost" for name in reasons), False])
    return Stretches(
        log.integers("run")[rows],
        log.integers("request")[rows],
        tenant[rows],
        log.floats("start_s")[rows],
        log.floats("time_s")[rows],
        log.integers("first_block")[rows],
        log.integers("end_block")[rows],
        np.nan_to_num(log.floats("share")[rows], nan=1.0),
        lost[reason[rows]],
        mode[rows],
        cores[rows],
        np.nan_to_num(log.floats("dram_bytes")[rows]),
        np.nan_to_num(log.floats("link_bytes")[rows]),
        np.nan_to_num(log.floats("energy_pj")[rows]),
        np.nan_to_num(log.floats("macs")[rows]),
        tenants,
        modes,
        tuple(tuple(int(part) for part in text.split("+") if part) for text in core_sets),
    )


def batches_of(log: LogTable) -> dict[int, tuple[tuple[int, int], ...]]:
    """The runs of several requests together: of each the requests, and positions of their tenants."""
    rows = log.where("start")
    runs = log.integers("run")[rows]
    found, counts = np.unique(runs, return_counts=True)
    if not (counts > 1).any():
        return {}
    request, tenant = log.integers("request")[rows], log.codes("tenant")[0][rows]
    batches: dict[int, list[tuple[int, int]]] = {int(run): [] for run in found[counts > 1]}
    for at in np.flatnonzero(np.isin(runs, found[counts > 1])).tolist():
        batches[int(runs[at])].append((int(request[at]), int(tenant[at])))
    return {run: tuple(members) for run, members in batches.items()}


def by_request(log: LogTable, work: Stretches) -> Stretches:
    """The stretches of a log with those of batches once for each of their requests, which share alike what
    they cost. Without batches they are as they were."""
    batches = batches_of(log)
    if not batches:
        return work
    alone = ((None, None),)
    members = [batches.get(run, alone) for run in work.run.tolist()]
    sizes = np.array([len(each) for each in members], dtype=np.int64)
    position = np.repeat(np.arange(len(work)), sizes)
    many = _only(work, position)
    share = sizes[position].astype(np.float64)
    flat = [member for each in members for member in each]
    request, tenant = many.request.copy(), many.tenant.copy()
    for at, (its_request, its_tenant) in enumerate(flat):
        if its_request is not None and its_tenant is not None:
            request[at], tenant[at] = its_request, its_tenant
    return replace(
        many,
        request=request,
        tenant=tenant,
        dram_bytes=many.dram_bytes / share,
        link_bytes=many.link_bytes / share,
        energy_pj=many.energy_pj / share,
        macs=many.macs / share,
        shared_by=share,
    )
