"""Three tenants with models of very different cost: their files, inputs and arrivals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.models import zoo
from headway.workload.draws import stream

VOCABULARY = 1000  # ids below that are in every zoo model's


@dataclass(frozen=True)
class Tenant:
    """A model, and the part of all work that its requests are."""

    name: str
    model: str
    output: str
    share: float
    options: tuple[tuple[str, int], ...] = ()


TENANTS = {
    tenant.name: tenant
    for tenant in (
        Tenant("small", "mobilenet_v3_small", "logits", 0.2),
        Tenant("middle", "resnet18", "logits", 0.4),
        Tenant("large", "distilbert", "last_hidden_state", 0.4, (("sequence_length", 128),)),
    )
}


class Arrival(NamedTuple):
    """A request of a trace; times are seconds from the trace's beginning."""

    id: int
    tenant: str
    arrival_s: float
    deadline_s: float


@dataclass(frozen=True)
class Models:
    """Models of all tenants as files in a folder, and a request's inputs and its right answer."""

    folder: Path
    contents: Mapping[str, bytes]
    inputs: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, Any]

    @classmethod
    def write(cls, folder: Path, seed: int) -> Models:
        """Write NAME.onnx of all tenants, and models.json, which tells the servers of inputs and outputs."""
        import onnxruntime

        contents, inputs, answers, told = {}, {}, {}, {}
        for name, tenant in TENANTS.items():
            content = zoo.build(tenant.model, weights=True, **dict(tenant.options)).SerializeToString()
            (folder / f"{name}.onnx").write_bytes(content)
            session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
            given = {entry.name: _input(entry, seed, name) for entry in session.get_inputs()}
            (answer,) = session.run([tenant.output], given)
            contents[name], inputs[name], answers[name] = content, given, answer
            told[name] = {
                "inputs": [[key, array.dtype.name, array.shape] for key, array in given.items()],
                "output": tenant.output,
                "output_shape": answer.shape,
            }
        (folder / "models.json").write_text(json.dumps(told))
        return cls(folder, contents, inputs, answers)


def _input(entry: Any, seed: int, tenant: str) -> Any:
    draws = stream(seed, "input", tenant, entry.name)
    if entry.type == "tensor(float)":
        return draws.standard_normal(entry.shape, np.float32)
    if entry.name == "attention_mask":
        return np.ones(entry.shape, np.int64)
    return draws.integers(0, VOCABULARY, entry.shape)


def trace(
    rates: Mapping[str, float], duration_s: float, seed: int, sla_s: Mapping[str, float]
) -> list[Arrival]:
    """Poisson arrivals. A tenant's depend on neither other tenants nor systems nor SLAs.

    All loads of a seed have the same draws: more load is the same pattern in less time.
    """
    times: list[tuple[float, str]] = []
    for name, rate in rates.items():
        draws = stream(seed, "arrivals", name)
        now_s = draws.exponential() / rate
        while now_s < duration_s:
            times.append((now_s, name))
            now_s += draws.exponential() / rate
    return [Arrival(i, name, at_s, at_s + sla_s[name]) for i, (at_s, name) in enumerate(sorted(times))]


def in_time(arrivals: Iterable[Arrival], ended_s: Mapping[int, float]) -> dict[str, int]:
    """How many requests of each tenant ended by their deadlines."""
    counts = dict.fromkeys(TENANTS, 0)
    for arrival in arrivals:
        counts[arrival.tenant] += ended_s.get(arrival.id, float("inf")) <= arrival.deadline_s + 1e-9
    return counts
