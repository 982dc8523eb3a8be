"""What a server's configuration says of its engine: models' sources, the estimator, the event log."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from headway.config.serving import Serving
from headway.config.serving_parts import ServedModel
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost.lanes import LaneTable
from headway.policies import Policy
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.overlap import OverlapModel
from headway.serve.event_log import NoLog, RetainedLog
from headway.serve.repository import ModelSource, read_labels

_ESTIMATORS: Final = ("default", "no-calibration", "no-margin")

OWN_VERSION: Final = "1"
"""Of models that the configuration names itself."""


def source_of(serving: Serving, position: int) -> ModelSource:
    """Where one of the configuration's own models comes from. Raises HeadwayError for labels not there."""
    model: ServedModel = serving.models[position]
    labels = {
        output: read_labels(serving.folder / file, serving.where("models", position, "labels", output))
        for output, file in model.labels.items()
    }
    return ModelSource(
        model.name,
        OWN_VERSION,
        serving.model_path(model),
        model.source,
        dims=model.dims,
        options=model.options,
        labels=labels,
        batching=model.batching,
    )


def belief_of(
    serving: Serving,
    policy: Policy,
    device: Device,
    tables: Mapping[str, LaneTable],
    overlap: OverlapModel,
) -> LaneEstimator:
    """What tells a policy about costs; models may come into the tables and go.

    Raises HeadwayError for a policy that wants to be told by something that a server does not have.
    """
    if policy.estimator not in _ESTIMATORS:
        raise HeadwayError(
            f"{serving.where('policy')}: {serving.policy!r} wants the estimator {policy.estimator!r};"
            f" accepted in a server: {', '.join(_ESTIMATORS)}"
        )
    return LaneEstimator(
        device,
        tables,
        overlap,
        learns=policy.estimator != "no-calibration",
        margins=policy.estimator != "no-margin",
    )


def event_log_of(serving: Serving, device: Device) -> NoLog | RetainedLog:
    """Where the engine's rows go."""
    if serving.log is None:
        return NoLog()
    packages = ("headway", "numpy", "onnx", "onnxruntime")
    metadata: dict[str, Any] = {
        "policy": serving.policy,
        "scenario": serving.model_dump(mode="json", by_alias=True, exclude={"tenants", "control_keys"}),
        "seed": 0,
        "versions": {name: version(name) for name in packages},
        "device": {
            "name": device.name,
            "cores": [{"index": c.index, "name": c.name, "kind": c.kind} for c in device.cores],
        },
        "tenants": [
            {
                "name": tenant.name,
                "model": "",
                "priority": tenant.priority,
                "weight": tenant.weight,
                "strict": tenant.strict,
                "percentile": 99.0 if tenant.sla is None else tenant.sla.percentile,
                "relative_deadline_s": None if tenant.sla is None else tenant.sla.deadline,
                "isolated_s": None,
            }
            for tenant in serving.tenants
        ],
        "warmup_s": 0.0,
        "warmup_share": 0.0,
        "duration_s": None,
    }
    folder = serving.folder / serving.log.folder
    return RetainedLog(folder, metadata, serving.log.part, serving.log.keep)
