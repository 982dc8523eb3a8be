"""What requests ask of a device, worked by hand."""

from __future__ import annotations

import pytest

from headway.cost.capacity import Demand, demand
from headway.testing import ToyTable, toy_device


def test_compute_is_shared_by_all_cores_and_traffic_by_the_bandwidth() -> None:
    device = toy_device(cores=2)
    bandwidth = device.dram_bandwidth_bytes_s
    short = ToyTable(device, [(1e-3, 0.0), (2e-3, 0.0)])
    wide = ToyTable(device, [(1e-3, 0.01 * bandwidth)])
    # 50 x 3 ms and 20 x 1 ms of compute on two cores; 20 x 10 ms of traffic.
    asked = demand([(short, 50.0), (wide, 20.0)], device)
    assert asked.cores == pytest.approx((0.150 + 0.020) / 2)
    assert asked.bandwidth == pytest.approx(0.2)
    assert asked.load == asked.bandwidth
    assert asked.memory_bound
    assert not demand([(short, 50.0)], device).memory_bound


def test_it_grows_with_the_rates_alone() -> None:
    device = toy_device(cores=3)
    tables = [ToyTable(device, [(1e-3, 1e6)]), ToyTable(device, [(4e-3, 1e3)] * 7)]
    single, double = (demand([(table, rate) for table in tables], device) for rate in (10.0, 20.0))
    assert (double.cores, double.bandwidth) == pytest.approx((2 * single.cores, 2 * single.bandwidth))
    assert demand([], device) == Demand(0.0, 0.0)
