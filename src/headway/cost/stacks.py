"""Which stacks of layers are worth running fused, and what each saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.core.block import Mode, Option
from headway.core.device import Device
from headway.cost.table import Table

Objective = Literal["latency", "dram", "energy"]
_PICOSECONDS = 1e12  # gains are compared in whole ones, so that rounding decides nothing


@dataclass(frozen=True, slots=True)
class PricedStack:
    """A run of consecutive layers, and the same layers one after the other on the one core that is fastest.

    Seconds are those alone on the device, what it takes to start the run included.
    """

    option: Option
    seconds: float
    serial: Option
    serial_seconds: float


def priced(table: Table, device: Device, option: Option) -> PricedStack:
    """An option beside its layers run one by one."""
    bandwidth = device.dram_bandwidth_bytes_s
    one_by_one = [
        table.option(Mode.SERIAL, option.first, option.end, (kind,)) for kind in range(len(device.kinds))
    ]
    serial = min(one_by_one, key=lambda each: each.seconds(bandwidth))
    return PricedStack(option, option.seconds(bandwidth), serial, serial.seconds(bandwidth))


def best_stacks(
    table: Table, device: Device, mode: Mode, objective: Objective = "latency"
) -> tuple[PricedStack, ...]:
    """The stacks of one mode that together save the most, in order; none of them overlap.

    The mode is fused or pipeline. What is saved is the latency, the DRAM bytes or the energy; among equals
    latency, then bytes decide. None is chosen that loses by the objective. Exact by dynamic programming over
    all options of the table.
    """
    offers = table.stacks if mode is Mode.FUSED else table.pipelines
    best: list[tuple[float, ...]] = [(0.0, 0.0, 0.0)] * (table.blocks + 1)
    chosen: list[PricedStack | None] = [None] * table.blocks
    for block in reversed(range(table.blocks)):
        best[block] = best[block + 1]
        for option in offers(block):
            stack = priced(table, device, option)
            gain = _gain(stack, objective)
            if gain[0] < 0:
                continue
            total = tuple(own + rest for own, rest in zip(gain, best[option.end], strict=True))
            if total > best[block]:
                best[block], chosen[block] = total, stack
    found = []
    block = 0
    while block < table.blocks:
        stack_here = chosen[block]
        if stack_here is None:
            block += 1
        else:
            found.append(stack_here)
            block = stack_here.option.end
    return tuple(found)


def _gain(stack: PricedStack, objective: Objective) -> tuple[float, ...]:
    latency = float(round((stack.serial_seconds - stack.seconds) * _PICOSECONDS))
    dram = stack.serial.dram_bytes - stack.option.dram_bytes
    if objective == "latency":
        return latency, dram, 0.0
    if objective == "dram":
        return dram, latency, 0.0
    return stack.serial.energy_pj - stack.option.energy_pj, latency, dram
