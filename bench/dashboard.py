"""What the dashboard costs a server: processor time per log row, answer and snapshot, and bytes per viewer.

Usage: python bench/dashboard.py [--seconds 10] [--seed 1]
"""

from __future__ import annotations

import argparse
import platform
import random
from time import process_time
from types import SimpleNamespace
from typing import Any

from headway.config.serving_parts import ServedTenant
from headway.core.protocols import LogRow
from headway.serve.answers import Answered
from headway.serve.dashboard.snapshot import Shown, spans_of, state_of
from headway.serve.dashboard.stream import EVERY_S, encoded
from headway.serve.dashboard.timeline import Timeline
from headway.serve.event_log import NoLog
from headway.serve.figures import Figures
from headway.serve.service import IndexEntry, ModelState
from headway.serve.tenants import Door

LANES = 2
REQUESTS_S, BLOCKS = 100.0, 10
SIZES = ((3, 3), (20, 50), (100, 200))


class Clock:
    """A clock that a script sets."""

    now_s = 0.0

    def now(self) -> float:
        return self.now_s


def service_of(tenants: int, models: int) -> Any:
    """What the dashboard asks of a service with that many tenants and models."""
    settings = [ServedTenant(name=f"tenant-{at}", sla={"deadline": "100 ms"}) for at in range(tenants)]
    index = [IndexEntry(f"model-{at}", "1", ModelState.READY) for at in range(models)]

    def find(name: str, version: str) -> Any:
        return SimpleNamespace(key=f"{name}/{version}@0", users=1, blocks=BLOCKS, isolated_s=0.01)

    return SimpleNamespace(
        live=lambda: True,
        ready=lambda: True,
        tenants=SimpleNamespace(
            doors=[Door(each, 0.0) for each in settings], require_control=lambda key: None
        ),
        models=SimpleNamespace(index=lambda only_ready: index, find=find, own=()),
    )


def measure(tenants: int, models: int, seconds: float, seed: int) -> tuple[float, float, float, int]:
    """Microseconds per row and answer, milliseconds per snapshot, bytes that a viewer is sent each time."""
    draw, clock = random.Random(seed), Clock()
    timeline = Timeline(NoLog())
    figures = Figures(LANES, clock.now, timeline)
    lanes = tuple(f"lane-{at}" for at in range(LANES))
    service = service_of(tenants, models)
    shown = Shown("bench", "headway", lanes, service, figures, timeline, clock.now, lambda key: 1, lambda: 0)
    rows_s = answers_s = snapshot_s = 0.0
    rows = answers = snapshots = size = 0
    request = 0
    while clock.now_s < seconds:
        made, heard = [], []
        until_s = clock.now_s + EVERY_S
        while (at_s := clock.now_s) < until_s:
            clock.now_s += draw.expovariate(REQUESTS_S)
            request += 1
            tenant, model = f"tenant-{draw.randrange(tenants)}", f"model-{draw.randrange(models)}"
            key, lane = f"{model}/1@0", str(draw.randrange(LANES))
            made.append(LogRow(at_s, "start", request, tenant, key, request, 0, BLOCKS, "serial", lane,
                               expected_end_s=at_s + 0.01))  # fmt: skip
            for block in range(BLOCKS):
                began_s = at_s + 0.001 * block
                made.append(LogRow(began_s + 0.001, "progress", request, tenant, key, request, block,
                                   block + 1, "serial", lane, began_s))  # fmt: skip
            made.append(
                LogRow(at_s + 0.01, "finish", request, tenant, key, request, 0, BLOCKS, "serial", lane)
            )
            heard.append(Answered(tenant, model, "1", 0.1, draw.uniform(0.01, 0.12), 0.0, 0.01, True))
        begun_s = process_time()
        for row in made:
            figures.add(row)
        rows_s += process_time() - begun_s
        begun_s = process_time()
        for answered in heard:
            figures.answered(answered)
        figures.add(LogRow(clock.now_s, "arrive"))
        answers_s += process_time() - begun_s
        begun_s = process_time()
        new, _ = timeline.take(clock.now_s)
        body = encoded(1, state_of(shown), new, whole=False)
        snapshot_s += process_time() - begun_s
        rows, answers, snapshots, size = rows + len(made), answers + len(heard), snapshots + 1, len(body)
    assert spans_of(timeline.spans())["spans"]
    return rows_s / rows * 1e6, answers_s / answers * 1e6, snapshot_s / snapshots * 1e3, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a server's time, for each size")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"{REQUESTS_S:g} requests a second of {BLOCKS} blocks, a snapshot every {EVERY_S:g} s")
    print("| tenants, models | per row | per answer | per snapshot | of a processor | to each viewer |")
    print("| --- | --- | --- | --- | --- | --- |")
    for tenants, models in SIZES:
        row_us, answer_us, snapshot_ms, size = measure(tenants, models, given.seconds, given.seed)
        share = snapshot_ms / 1e3 / EVERY_S
        print(
            f"| {tenants}, {models} | {row_us:.1f} us | {answer_us:.1f} us | {snapshot_ms:.1f} ms"
            f" | {share:.1%} | {size / 1e3 / EVERY_S:.0f} kB/s |"
        )


if __name__ == "__main__":
    main()
