"""What clients are told of the server and its models, as JSON values; gRPC's messages are made from them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from headway.serve.service import Count, IndexEntry, ModelDescription, ModelStatistics, TensorSpec

# Shared memory is not offered; its status methods answer, which is no extension of it.
EXTENSIONS = (
    "classification",
    "model_configuration",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)


def server_metadata() -> dict[str, object]:
    return {"name": "headway", "version": version("headway"), "extensions": list(EXTENSIONS)}


def model_metadata(model: ModelDescription) -> dict[str, object]:
    return {
        "name": model.name,
        "versions": list(model.versions),
        "platform": model.platform,
        "inputs": [_tensor(spec) for spec in model.inputs],
        "outputs": [_tensor(spec) for spec in model.outputs],
    }


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": list(spec.shape)}


def model_config(model: ModelDescription) -> dict[str, object]:
    """The model's configuration in Triton's form; dims are without the batch where there is one."""
    first = 1 if model.max_batch_size > 0 else 0
    numbers = [int(text) for text in model.versions if text.isdigit()]
    return {
        "name": model.name,
        "platform": model.platform,
        "backend": model.platform.partition("_")[0],
        "version_policy": {"specific": {"versions": numbers}},
        "max_batch_size": model.max_batch_size,
        "input": [_config_tensor(spec, first) for spec in model.inputs],
        "output": [_config_tensor(spec, first) for spec in model.outputs],
        "instance_group": [{"name": model.name, "kind": "KIND_CPU", "count": 1}],
        "model_transaction_policy": {"decoupled": False},
    }


def _config_tensor(spec: TensorSpec, first: int) -> dict[str, object]:
    datatype = "STRING" if spec.datatype == "BYTES" else spec.datatype
    return {"name": spec.name, "data_type": f"TYPE_{datatype}", "dims": list(spec.shape[first:])}


def model_statistics(models: Sequence[ModelStatistics]) -> dict[str, object]:
    return {"model_stats": [_statistics(model) for model in models]}


def _statistics(model: ModelStatistics) -> dict[str, object]:
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference_ms,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": {
            "success": _count(model.success),
            "fail": _count(model.fail),
            "queue": _count(model.queue),
            "compute_input": _count(model.compute_input),
            "compute_infer": _count(model.compute_infer),
            "compute_output": _count(model.compute_output),
            "cache_hit": _count(Count()),
            "cache_miss": _count(Count()),
        },
        "response_stats": {},
        # Batches have one time altogether: inputs and outputs are not copied for them.
        "batch_stats": [
            {
                "batch_size": size,
                "compute_input": _count(Count(count.count)),
                "compute_infer": _count(count),
                "compute_output": _count(Count(count.count)),
            }
            for size, count in sorted(model.batches.items())
        ],
        "memory_usage": [],
    }


def _count(count: Count) -> dict[str, int]:
    return {"count": count.count, "ns": count.ns}


def repository_index(entries: Sequence[IndexEntry]) -> list[dict[str, str]]:
    return [
        {"name": entry.name, "version": entry.version, "state": entry.state.value, "reason": entry.reason}
        for entry in entries
    ]


def model_list(entries: Sequence[IndexEntry]) -> dict[str, list[str]]:
    """KServe's list of models: the names of those that have a version."""
    return {"models": sorted({entry.name for entry in entries})}
