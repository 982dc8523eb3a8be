"""The least that a request takes of the machine, whatever the policy: at a price, and in time.

Both are shortest ways through the request's blocks. The state between two blocks is whether the output of
the first one stays on a core, and of which kind, because the next block must then run there and moves less.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headway.bounds.ways import ALONE, CLOSES, CONTINUES, OPENS, Floats, Ways


def least_priced_s(ways: Ways, factors: Floats, core_price: Floats, bandwidth_price: Floats) -> Floats:
    """What a request costs at these prices at the least: an entry for each row, in the prices' seconds.

    Args:
        ways: how the model's blocks can be run.
        factors: [row, block], what truth multiplies the work of each block by.
        core_price: [row or 1, kind], the price of a second of a core.
        bandwidth_price: [row or 1], the price of what the memory moves in a second at most.
    """
    return _shortest(ways, factors, lambda cores: cores @ core_price.T, bandwidth_price)


def least_latency_s(ways: Ways, factors: Floats) -> Floats:
    """Seconds from a request's start to its end at the least, with the whole machine to itself."""
    return _shortest(ways, factors, lambda cores: np.ones((len(cores), 1)), np.zeros(1))


def _shortest(
    ways: Ways, factors: Floats, price: Callable[[Floats], Floats], bandwidth_price: Floats
) -> Floats:
    """The way of least cost for each row; `price` says what a second on [run, kind] cores costs."""
    chains, rows = ways.chains, len(factors)
    upto = np.concatenate((np.zeros((rows, 1)), np.cumsum(factors, axis=1)), axis=1).T
    left = np.full((ways.blocks + 1, 1 + ways.kinds, rows), np.inf)  # [block, state], state 0: nothing stays
    left[ways.blocks, 0] = 0.0
    on_one_core = price(np.eye(ways.kinds))
    for block in reversed(range(ways.blocks)):
        cost = chains.fixed_s[:, block, :, None] + np.maximum(
            factors[:, block] * chains.work_s[:, block, :, None], chains.busy_s[:, block, :, None]
        )
        cost = on_one_core * cost + bandwidth_price * chains.transfer_s[:, block, :, None]
        free, stays = left[block + 1, 0], left[block + 1, 1:]
        left[block, 0] = np.minimum(cost[ALONE] + free, cost[OPENS] + stays).min(axis=0)
        left[block, 1:] = np.minimum(cost[CLOSES] + free, cost[CONTINUES] + stays)
        runs = ways.runs[block]
        if len(runs.end):
            transfer = runs.transfer_s[:, None]
            factor = (upto[runs.end] - upto[block]) / (runs.end - block)[:, None]
            elapsed = runs.fixed_s[:, None] + np.maximum(factor * runs.work_s[:, None], transfer)
            cost = price(runs.cores) * elapsed + bandwidth_price * (transfer - runs.spared_s[:, None])
            np.minimum(
                left[block, 0], (cost + left[runs.end, runs.left_on + 1]).min(axis=0), out=left[block, 0]
            )
    found: Floats = left[0, 0]
    return found
