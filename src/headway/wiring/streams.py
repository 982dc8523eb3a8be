"""Models on a simulated GPU with streams: blocks, times and demands are predicted, nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from headway.config import Scenario, StreamHardware
from headway.core.block import Pressure
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost.lanes import LaneTable
from headway.models.graph import Graph
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing

MOST_BLOCKS: Final = 64
_SHORTEST_S: Final = 1e-9


@dataclass(frozen=True)
class Predicted:
    """Models as they are predicted on a GPU: cost tables, seconds alone, and what is doubtful."""

    tables: Mapping[str, LaneTable]
    isolated_s: Mapping[str, float]
    said: tuple[str, ...]

    def described(self) -> dict[str, Any]:
        """What a log carries of it: for every model the seconds of each block, and what it asks for."""
        return {
            key: {
                "seconds": [block.compute_s for block in table.blocks_on(1)],
                "isolated_s": self.isolated_s[key],
            }
            for key, table in self.tables.items()
        }


def predict(
    scenario: Scenario,
    device: Device,
    graphs: Mapping[str, tuple[int, Graph]],
    larger: Mapping[str, Mapping[int, Graph]] = MappingProxyType({}),
) -> Predicted:
    """Predict every model; `graphs` gives for each the position of a tenant that runs it, and its layers,
    `larger` those of models whose requests may run together, by how many.

    Raises HeadwayError naming the scenario's line for a GPU that is not known, and for a model whose times
    cannot be predicted there.
    """
    hardware = scenario.hardware
    assert isinstance(hardware, StreamHardware)
    from headway.wiring.gpu import gpu_device

    try:
        gpu_device(hardware.gpu)
    except HeadwayError as error:
        raise HeadwayError(f"{scenario.where('hardware', 'gpu')}: {error}") from None
    tables: dict[str, LaneTable] = {}
    said: list[str] = []
    for key, (position, graph) in graphs.items():
        where = scenario.where("tenants", position, "model")
        try:
            tables[key], doubtful = stream_table(key, graph, hardware, device, larger.get(key, {}))
        except HeadwayError as error:
            raise HeadwayError(f"{where}: {error}") from None
        said.extend(f"{where}: {words}" for words in doubtful)
    return Predicted(tables, {key: table.isolated_s for key, table in tables.items()}, tuple(said))


def stream_table(
    key: str,
    graph: Graph,
    hardware: StreamHardware,
    device: Device,
    larger: Mapping[int, Graph] = MappingProxyType({}),
) -> tuple[LaneTable, tuple[str, ...]]:
    """The cost table of one model, and what is doubtful about it."""
    from headway.wiring.gpu import gpu_estimate

    whole = gpu_estimate(graph, hardware.gpu, 1)
    count = min(MOST_BLOCKS, len(graph.layers), max(1, round(whole.blocks[0].middle_s / hardware.block)))
    found = whole if count == 1 else gpu_estimate(graph, hardware.gpu, count)
    seconds = [max(block.middle_s, _SHORTEST_S) for block in found.blocks]
    pressures = [
        Pressure(key, at, 1, demand.compute, demand.bandwidth, demand.occupancy, 0.0)
        for at, demand in enumerate(found.demands)
    ]
    cuts = [block.first for block in found.blocks[1:]]
    batches = {size: _batch_s(key, size, each, graph, cuts, hardware) for size, each in larger.items()}
    blocks = tuple(
        BlockProfile(
            f"block{at}",
            "",
            None,
            tuple(layer.op for layer in graph.layers[block.first : block.end]),
            {1: Timing.of([block_s])},
            batch_seconds={size: {1: Timing.of([times[at]])} for size, times in batches.items()},
        )
        for at, (block, block_s) in enumerate(zip(found.blocks, seconds, strict=True))
    )
    profile = ModelProfile(
        key,
        graph.content_hash,
        hardware.gpu,
        "predicted",
        tuple(block.first for block in found.blocks[1:]),
        blocks,
        {1: Timing.of([sum(seconds)])},
        {1: 0.0},
        {1: None},
        0.0,
    )
    overheads = DeviceProfile(
        hardware.gpu, "predicted", hardware.streams, hardware.dispatch_overhead, 0.0, 0.0
    )
    extrapolated = sum(block.extrapolated_share * block.middle_s for block in found.blocks) / sum(seconds)
    doubtful = (
        (f"{extrapolated:.0%} of its time on {hardware.gpu} is of kernels that no measurement is like",)
        if extrapolated >= 0.01
        else ()
    )
    return LaneTable(profile, device, overheads, {1: pressures}), doubtful


def _batch_s(
    key: str, size: int, larger: Graph, graph: Graph, cuts: Sequence[int], hardware: StreamHardware
) -> list[float]:
    """Seconds of each block of a model that does for several requests what it does for one."""
    from headway.wiring.gpu import gpu_block_s

    if len(larger.layers) != len(graph.layers):
        raise HeadwayError(
            f"{key}: {len(larger.layers)} layers for a batch of {size}, {len(graph.layers)} for one request;"
            " accepted for batches: a model with the same layers for all"
        )
    return [max(block_s, _SHORTEST_S) for block_s in gpu_block_s(larger, hardware.gpu, cuts)]
