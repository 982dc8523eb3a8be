"""ZigZag's and Stream's descriptions as plain data, facts of the published tpu_like core."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

BOTH = {"fh": "w_port_1", "tl": "r_port_1"}
ALL = {**BOTH, "fl": "w_port_1", "th": "r_port_1"}
SHARED = {"fh": "rw_port_1", "tl": "rw_port_1"}
SHARED_ALL = {**SHARED, "fl": "rw_port_1", "th": "rw_port_1"}


def memory(bits: int, width: int, operands: list[str], served: list[str], **more: Any) -> dict[str, Any]:
    """A memory in the older form: one bandwidth for reads and writes."""
    return {
        "size": bits,
        "r_bw": width,
        "w_bw": width,
        "r_cost": 1.0,
        "w_cost": 1.0,
        "area": 0,
        "r_port": 1,
        "w_port": 1,
        "rw_port": 0,
        "latency": 1,
        "operands": operands,
        "ports": [copy.deepcopy(ALL if operand == "O" else BOTH) for operand in operands],
        "served_dimensions": served,
        **more,
    }


def dram(dimensions: list[str], width: int = 64, cost: float = 700) -> dict[str, Any]:
    """A DRAM behind one port."""
    ports = [copy.deepcopy(port) for port in (SHARED, SHARED, SHARED_ALL)]
    return memory(
        10_000_000_000, width, ["I1", "I2", "O"], dimensions, r_cost=cost, w_cost=cost + 50, ports=ports
    )


def tpu_like() -> dict[str, Any]:
    """A 32 x 32 array that unrolls K and C; its SRAM holds inputs and outputs only."""
    accumulators = {"fh": "w_port_1", "tl": "r_port_1", "fl": "w_port_2", "th": "r_port_2"}
    return {
        "name": "tpu_like",
        "memories": {
            "rf_128B": memory(1024, 8, ["I2"], [], r_cost=0.095, w_cost=0.095),
            "rf_2B": memory(16, 16, ["O"], ["D2"], r_cost=0.021, w_cost=0.021, ports=[accumulators]),
            "sram_2MB": memory(
                16_777_216, 2048, ["I1", "O"], ["D1", "D2"], r_cost=416.16, w_cost=378.4,
                min_r_granularity=64, min_w_granularity=64,
            ),
            "dram": dram(["D1", "D2"]),
        },
        "operational_array": {
            "unit_energy": 0.04, "unit_area": 1, "dimensions": ["D1", "D2"], "sizes": [32, 32],
        },
        "dataflows": {"D1": ["K, 32"], "D2": ["C, 32"]},
    }  # fmt: skip


@pytest.fixture
def core_data() -> Callable[[], dict[str, Any]]:
    """Makes descriptions of the tpu_like core, each its own."""
    return tpu_like
