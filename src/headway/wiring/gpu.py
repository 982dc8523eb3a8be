"""A model's latency on a GPU that need not be there, for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.config.yaml_file import read_yaml
from headway.core.errors import HeadwayError
from headway.models import Graph
from headway.predict.gpu import (
    BlockDemand,
    BlockSeconds,
    GpuDevice,
    block_seconds,
    device_from_mapping,
    even_cuts,
    kernel_demands,
    known_device,
    known_devices,
    shipped_predictor,
)

_FILE_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class GpuEstimate:
    """Blocks of a model with their latency and demands, in order; `measured` says whether the GPU's own rows
    were learned from, `level` how many of the measured kernels lie between the bounds of their intervals."""

    device: GpuDevice
    blocks: tuple[BlockSeconds, ...]
    demands: tuple[BlockDemand, ...]
    measured: bool
    level: float


def gpu_device(named: str) -> GpuDevice:
    """A shipped device by name, or one that a YAML or JSON file describes.

    Raises HeadwayError for an unknown name, a file that is missing, or a description that does not hold.
    """
    path = Path(named)
    if named not in known_devices() and (path.suffix in _FILE_SUFFIXES or path.exists()):
        document = read_yaml(path)
        if not isinstance(document.data, dict):
            raise HeadwayError(f"{path}: accepted: a mapping of a GPU's fields")
        return device_from_mapping(str(document.data.get("name", path.stem)), document.data, str(path))
    return known_device(named)


def gpu_estimate(graph: Graph, named: str, blocks: int) -> GpuEstimate:
    """The latency of a float32 model on a GPU, in at most `blocks` blocks of about equal length.

    Raises HeadwayError for an unknown or wrongly described GPU and for a precision other than float32.
    """
    device = gpu_device(named)
    predictor = shipped_predictor()
    cuts = even_cuts(graph, blocks, device, predictor)
    return GpuEstimate(
        device,
        block_seconds(graph, cuts, device, predictor),
        kernel_demands(graph, cuts, device, predictor),
        predictor.index_of(device) is not None,
        predictor.level,
    )


def gpu_block_s(graph: Graph, named: str, cuts: Sequence[int]) -> list[float]:
    """Seconds of the blocks of a float32 model on a GPU between given cuts, as `gpu_estimate` has them."""
    found = block_seconds(graph, cuts, gpu_device(named), shipped_predictor())
    return [block.middle_s for block in found]
