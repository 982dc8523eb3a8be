"""The clairvoyant bound of simulated runs of a prepared scenario."""

from __future__ import annotations

from headway.bounds import Bound, Clairvoyant
from headway.core.request import Request
from headway.policies import make
from headway.record.columns import Requests, requests_of, warmup_end_s
from headway.record.log import LogTable
from headway.wiring.prepared import Prepared
from headway.workload.sources import IDS_PER_TENANT


class Bounding:
    """Bounds for the runs of one prepared scenario, under any policies.

    The bound is of the requests as they arrived in a run. Where arrivals do not depend on replies it is the
    same for every policy, and worked out once, but for policies with fixed bands, which have ways of running
    that others do not; in closed loops and cascades it is another one for each log.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self._clairvoyants: dict[bool, Clairvoyant] = {}  # by whether the policy has fixed bands
        self._known: dict[tuple[bool, bytes], Bound] = {}

    def of(self, log: LogTable) -> Bound:
        """The most requests that could be on time among those that the metrics of a log count."""
        everything = requests_of(log)
        counted = everything.only(everything.arrival_s >= warmup_end_s(log))
        fixed_bands = make(log.metadata["policy"]).fixed_bands
        key = fixed_bands, counted.id.tobytes() + counted.arrival_s.tobytes()
        if key not in self._known:
            noise = self._prepared.noise()
            self._known[key] = self._clairvoyant(fixed_bands).bound(self._requests(counted), noise)
        return self._known[key]

    def share(self, log: LogTable) -> float | None:
        """The same as SLA satisfaction; None if no request counts, and where requests may run together: the
        bound is of runs of one each."""
        if any(tenant.batching is not None for tenant in self._prepared.scenario.tenants):
            return None
        return self.of(log).sla_satisfaction

    def _clairvoyant(self, fixed_bands: bool) -> Clairvoyant:
        if fixed_bands not in self._clairvoyants:
            device, tables = self._prepared.device, self._prepared.tables
            self._clairvoyants[fixed_bands] = Clairvoyant(device, tables, fixed_bands=fixed_bands)
        return self._clairvoyants[fixed_bands]

    def _requests(self, counted: Requests) -> list[Request]:
        tables = self._prepared.tables
        return [
            Request(
                id=id,
                tenant=counted.tenants[tenant],
                index=id % IDS_PER_TENANT,
                model=counted.models[model],
                arrival_s=arrival_s,
                deadline_s=deadline_s,
                blocks=tables[counted.models[model]].blocks,
                isolated_s=isolated_s,
            )
            for id, tenant, model, arrival_s, deadline_s, isolated_s in zip(
                counted.id.tolist(),
                counted.tenant.tolist(),
                counted.model.tolist(),
                counted.arrival_s.tolist(),
                counted.deadline_s.tolist(),
                counted.isolated_s.tolist(),
                strict=True,
            )
        ]
