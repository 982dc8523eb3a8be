"""Headway as one of the systems: one server, with a tenant for each of the three at each SLA."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from systems import Served
from tenants import TENANTS
from ways import Headers, Way

from headway.serve.keys import hash_of, new_key

RETURN_S = 0.5e-3
"""What an answer may need from the server to the client's program: requests say that much less is left."""


class Headway(Served):
    """`headway serve`; each request brings what is left of its SLA when it is sent."""

    told_sla = True

    def __init__(self, name: str, label: str, way: Way, policy: str = "headway") -> None:
        super().__init__(name, label, way, ports=2)
        self._policy = policy
        self._keys = {}
        self._prober = new_key()
        self.sla_s: Mapping[float, Mapping[str, float]] = {}
        """By multiple of isolated latency, then tenant; must be there before `start`."""

    def _command(self, folder: Path) -> Sequence[str | Path]:
        self._keys = {(name, sla): new_key() for sla, limits in self.sla_s.items() for name in limits}
        tenants: list[dict[str, Any]] = [
            {
                "name": f"{name}-{sla:g}".replace(".", "_"),
                "keys": [hash_of(key)],
                "models": [name],
                "sla": {"deadline": f"{1e3 * self.sla_s[sla][name]:.6f} ms"},
            }
            for (name, sla), key in self._keys.items()
        ]
        tenants.append({"name": "prober", "keys": [hash_of(self._prober)], "sla": {"deadline": "60 s"}})
        config = {
            "hardware": "cpu-lanes",
            "policy": self._policy,
            "listen": {"http": self.port, "grpc": self.port + 1, "control": None},
            "models": [{"name": name, "model": str(self.models.folder / f"{name}.onnx")} for name in TENANTS],
            "tenants": tenants,
        }
        file = folder / "serve.yaml"
        file.write_text(yaml.safe_dump(config))
        return [sys.executable, "-c", "from headway.cli import main; main()", "serve", file]

    def _variables(self, folder: Path) -> dict[str, str]:
        # Profiles of another hour would not do: the machine may be slower or faster now.
        return {"HEADWAY_CACHE": str(folder / "cache"), "PYTHONPATH": ""}

    def _headers(self, tenant: str, deadline_s: float, sla: float | None) -> Headers:
        if sla is None:
            return (("X-API-Key", self._prober),)
        left_ms = max(1e-3, 1e3 * (deadline_s - RETURN_S))
        return (("X-API-Key", self._keys[tenant, sla]), ("Headway-Deadline-Ms", f"{left_ms:.3f}"))
