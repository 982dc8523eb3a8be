"""What an offered load asks of a device, and so what the device's capacity is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum

from headway.core.device import Device
from headway.core.protocols import CostTable


@dataclass(frozen=True, slots=True)
class Demand:
    """What requests ask of a device per second, as shares of what it has.

    `cores` is compute time over that of all cores, `bandwidth` DRAM traffic over the bandwidth. Above 1 a
    layer-by-layer scheduler cannot keep up, whatever it does.
    """

    cores: float
    bandwidth: float

    @property
    def load(self) -> float:
        """The share of the tighter of the two: 1 is the capacity."""
        return max(self.cores, self.bandwidth)

    @property
    def memory_bound(self) -> bool:
        """Whether bandwidth rather than the cores limits the device under these requests."""
        return self.bandwidth > self.cores


def demand(rates: Iterable[tuple[CostTable, float]], device: Device) -> Demand:
    """What tables of models, each with its requests per second, ask of a device layer by layer.

    Each layer counts with its least compute time over the kinds of cores and with its least DRAM traffic,
    nothing kept in SRAM from layer to layer and no overheads. Keeping outputs in SRAM, and fusion, ask less
    of the bandwidth: at a load of 1 there is still something to gain.
    """
    compute_s: list[float] = []
    dram_bytes: list[float] = []
    for table, rate in rates:
        for row in table.serial:
            compute_s.append(rate * min(option.compute_s for option in row))
            dram_bytes.append(rate * min(option.dram_bytes for option in row))
    return Demand(
        fsum(compute_s) / len(device.cores),
        fsum(dram_bytes) / device.dram_bandwidth_bytes_s,
    )
