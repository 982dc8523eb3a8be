"""What models take alone, and how much bare ONNX Runtime gets done: the measure of loads and deadlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from noise import Probe
from shared import Bare, alone_s, serve
from tenants import TENANTS, Arrival, Models

_ALONE_S = 2.0
_BACKLOG_S = 4.0


@dataclass(frozen=True)
class Calibration:
    """Times of models alone with two threads; `capacity` is the work of those seconds done in a second."""

    isolated_s: Mapping[str, float]
    capacity: float
    probe_s: float

    @classmethod
    def measure(cls, models: Models, probe: Probe) -> Calibration:
        """Takes about half a minute."""
        contents, inputs = dict(models.contents), dict(models.inputs)
        wide = Bare(2, contents, inputs, spinning=False)
        narrow = [Bare(1, contents, inputs, spinning=False) for _ in range(2)]
        alone_s(wide, 0.5)
        before_s = probe.take_s()
        isolated_s = alone_s(wide, _ALONE_S)
        probe_s = (before_s + probe.take_s()) / 2
        backlog = _backlog(isolated_s)
        work_s = sum(isolated_s[arrival.tenant] for arrival in backlog)
        ways = ([wide], narrow)
        capacity = max(work_s / max(serve(workers, backlog).values()) for workers in ways)  # type: ignore[arg-type]
        return cls(isolated_s, capacity, probe_s)

    def rates(self, utilisation: float) -> dict[str, float]:
        """Requests a second of each tenant."""
        return {
            name: utilisation * self.capacity * tenant.share / self.isolated_s[name]
            for name, tenant in TENANTS.items()
        }

    def sla_s(self, multiple: float) -> dict[str, float]:
        """Each tenant's deadline after arrival."""
        return {name: multiple * alone for name, alone in self.isolated_s.items()}

    def as_mapping(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def _backlog(isolated_s: Mapping[str, float]) -> list[Arrival]:
    """Work of some seconds in the tenants' shares, mixed, all of it there at once."""
    counts = {
        name: max(1, round(_BACKLOG_S * tenant.share / isolated_s[name])) for name, tenant in TENANTS.items()
    }
    mixed = sorted((i / count, name) for name, count in counts.items() for i in range(count))
    return [Arrival(i, name, 0.0, float("inf")) for i, (_, name) in enumerate(mixed)]
