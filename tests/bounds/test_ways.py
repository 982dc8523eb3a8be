"""Runs in a fixed number of bands are among the ways that the bound regards, if it is asked to."""

from __future__ import annotations

import pytest

from headway.bounds.ways import ways_of
from headway.config import load_hardware
from headway.core.block import Option
from headway.core.device import Device
from headway.core.protocols import CostTable
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge, zoo
from headway.policies.lucas_runs import Allowed, multis, singles


@pytest.fixture(scope="module")
def scene() -> tuple[Device, CostTable]:
    device = load_hardware("moca8")
    model = load_model(zoo.build("kws_res8", batch=1, weights=False), name="kws_res8")
    return device, build_table(merge(at_width(model, device.operand_bytes)), device)


def uncovered(device: Device, table: CostTable, fixed_bands: bool) -> list[Option]:
    """Fused runs that `lucas:fixed-band` may choose, and for which no way costs as little in everything."""
    ways, kinds = ways_of(table, device, fixed_bands=fixed_bands), range(len(device.kinds))
    allowed = Allowed(best_bands=False)
    found = []
    for block in range(table.blocks):
        options = [*singles(table, block, allowed), *multis(table, block, allowed)]
        runs = ways.runs[block]
        for option in [each for each in options if each.band_rows is not None]:
            transfer_s = option.dram_bytes / device.dram_bandwidth_bytes_s
            counts = [option.kinds.count(kind) for kind in kinds]
            as_cheap = (
                (runs.end == option.end)
                & (runs.cores == counts).all(axis=1)
                & (runs.fixed_s <= option.fixed_s)
                & (runs.work_s <= max(option.compute_s, transfer_s))
                & (runs.transfer_s <= transfer_s)
            )
            if not as_cheap.any():
                found.append(option)
    return found


def test_every_run_in_fixed_bands_is_covered(scene: tuple[Device, CostTable]) -> None:
    assert uncovered(*scene, fixed_bands=True) == []


def test_without_being_asked_to_it_covers_only_what_the_table_lists(scene: tuple[Device, CostTable]) -> None:
    assert uncovered(*scene, fixed_bands=False) != []
