"""The stacks that together save the most."""

from __future__ import annotations

import pytest

from headway.core.block import Mode
from headway.cost.stacks import best_stacks, priced
from headway.cost.table import build_table


def saved(stack, objective):
    if objective == "latency":
        return stack.serial_seconds - stack.seconds
    name = {"dram": "dram_bytes", "energy": "energy_pj"}[objective]
    return getattr(stack.serial, name) - getattr(stack.option, name)


def most_by_trying_all(table, machine, mode, objective, block=0):
    """The largest sum of savings of disjoint options from a block on, by recursion over every choice."""
    if block == table.blocks:
        return 0.0
    most = most_by_trying_all(table, machine, mode, objective, block + 1)
    for option in table.stacks(block) if mode is Mode.FUSED else table.pipelines(block):
        gain = saved(priced(table, machine, option), objective)
        most = max(most, gain + most_by_trying_all(table, machine, mode, objective, option.end))
    return most


@pytest.mark.parametrize("objective", ["latency", "dram", "energy"])
@pytest.mark.parametrize("mode", [Mode.FUSED, Mode.PIPELINE])
def test_no_other_choice_saves_more(device, chain, mode, objective):
    machine = device(bandwidth=2e9, sram=256 << 10)
    table = build_table(chain(6), machine)
    found = best_stacks(table, machine, mode, objective)
    assert found
    ends = [0] + [stack.option.end for stack in found]
    assert all(stack.option.first >= end for stack, end in zip(found, ends, strict=False))
    assert {stack.option.mode for stack in found} == {mode}
    total = sum(saved(stack, objective) for stack in found)
    assert total == pytest.approx(most_by_trying_all(table, machine, mode, objective), rel=1e-6)


def test_the_baseline_is_the_fastest_single_core(device, chain):
    machine = device(bandwidth=2e9)
    table = build_table(chain(), machine)
    stack = priced(table, machine, table.option(Mode.SPLIT, 0, 2, (0, 1)))
    alone = [table.option(Mode.SERIAL, 0, 2, (kind,)).seconds(2e9) for kind in (0, 1)]
    assert stack.serial_seconds == min(alone)
    assert stack.seconds == stack.option.seconds(2e9)
