"""How long one decision of a lane policy takes with a hundred requests waiting or more.

Overload with far deadlines makes the queue that long, on two simulated lanes with four made-up models; see
`headway evaluate blocks`. Processor time of the middle half of the decisions: the first and the last, when
the queue is short, are not counted.

    .venv/bin/python bench/lane_decision.py [--devices streams,lanes] [--policies edf:planned,headway]
"""

from __future__ import annotations

import argparse
import platform
import sys
from datetime import date
from time import thread_time

from headway.core.decision_time import DecisionTimes
from headway.wiring.block_points import BlockPoint, PreparedPoint

OVERLOAD, FAR_SLA, REQUESTS = 8.0, 300.0, 700


def decision_us(policy: str, device: str, seed: int) -> list[float]:
    """Microseconds of a decision: the median, the 95th and the 99th percentile."""
    prepared = PreparedPoint(BlockPoint(device, 4, OVERLOAD, FAR_SLA, seed, REQUESTS))
    prepared.run(policy)  # fills caches
    times = DecisionTimes(thread_time)
    prepared.run(policy, times)
    count = len(times.seconds)
    middle = sorted(list(times.seconds)[count // 4 : 3 * count // 4])
    return [1e6 * middle[int(share * len(middle))] for share in (0.5, 0.95, 0.99)]


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", default="streams,lanes")
    parser.add_argument("--policies", default="edf:planned,headway")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {sys.version.split()[0]}, {date.today()}, seed {options.seed}\n")
    print("| device | policy | median, us | 95 % | 99 % |\n" + "|" + " --- |" * 5)
    for device in options.devices.split(","):
        for policy in options.policies.split(","):
            cells = " | ".join(f"{each:.0f}" for each in decision_us(policy, device, options.seed))
            print(f"| {device} | {policy} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
