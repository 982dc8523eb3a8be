"""What a request costs the scheduler live, as counts that no other program disturbs.

Three models of 2, 10 and 34 blocks send 100 requests a second to two lanes, through the live driver on a
clock that jumps; block ends at which a run goes on wait for the next event, as they do live. Counted are the
byte codes of Python, and calls of functions, in Headway's files: the threads' waiting and waking, which is
left out, comes on top. Prints a table of the files with most byte codes for each policy.

    .venv/bin/python bench/scheduler_counts.py [--policies edf:planned,headway] [--seconds 1.5]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import headway
from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.messages import Arrive, Event, Reply
from headway.core.request import Request
from headway.cost.lanes import LaneTable
from headway.live.clock import VirtualClock
from headway.live.driver import LiveDriver
from headway.live.executors.null import VirtualExecutor
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.policies import make
from headway.predict.lane_estimator import LaneEstimator
from headway.predict.overlap import ConstantOverlap
from headway.record.log import MemoryLog

BLOCKS = {"small": 2, "middle": 10, "large": 34}
RATES = {"small": 75.0, "middle": 20.0, "large": 5.0}
BLOCK_S, WIDE_SHARE, SLA, SHOWN = 1.5e-3, 0.62, 5.0, 12
LEFT_OUT = ("live/clock.py", "live/executors/null.py")  # which stand in for threads here
PACKAGE = Path(headway.__file__).parent


class Unhurried(VirtualClock):
    """Events that are left end no wait."""

    def __init__(self) -> None:
        super().__init__()
        self._left: list[Event] = []

    def leave(self, event: Event) -> None:
        """Keep it for the next wait that ends."""
        self._left.append(event)

    def wait(self, until_s: float | None) -> list[Event]:
        """What was left, then what was posted."""
        posted = super().wait(until_s)
        left, self._left = self._left, []
        return left + posted


class Load:
    """The arrivals of that many seconds."""

    def __init__(self, seconds: float, seed: int) -> None:
        draws = random.Random(seed)
        self.arrivals: list[tuple[float, str]] = []
        for model, rate in RATES.items():
            at_s = draws.expovariate(rate)
            while at_s < seconds:
                self.arrivals.append((at_s, model))
                at_s += draws.expovariate(rate)
        self.arrivals.sort()

    def first(self) -> Iterable[Arrive]:
        """All of them."""
        for id, (at_s, model) in enumerate(self.arrivals):
            alone_s = BLOCK_S * BLOCKS[model]
            due_s = at_s + SLA * WIDE_SHARE * alone_s
            yield Arrive(Request(id, model, id, model, at_s, due_s, BLOCKS[model], alone_s))

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """None."""
        return ()


def profile(model: str) -> ModelProfile:
    """A made-up model that takes less over two lanes."""
    widths = {1: BLOCK_S, 2: WIDE_SHARE * BLOCK_S}
    times = {width: Timing.of([seconds]) for width, seconds in widths.items()}
    whole = {width: Timing.of([BLOCKS[model] * seconds]) for width, seconds in widths.items()}
    blocks = tuple(BlockProfile("", "", 0, (), times) for _ in range(BLOCKS[model]))
    return ModelProfile(model, "", "", "", tuple(range(BLOCKS[model] - 1)), blocks, whole, {}, {}, 0.0)


def run(policy: str, load: Load) -> None:
    """Serve the load once."""
    device = Device.of_lanes("lanes", 2, 1, "")
    nothing = DeviceProfile("", "", 0, 0.0, 0.0, 0.0)
    tables = {model: LaneTable(profile(model), device, nothing) for model in BLOCKS}
    estimator = LaneEstimator(device, tables, ConstantOverlap(0.15), learns=False)
    engine = Engine(device, make(policy), estimator, estimator.contention, MemoryLog({}), forgiving=True)
    clock = Unhurried()
    executor = VirtualExecutor({model: (BLOCK_S,) * count for model, count in BLOCKS.items()}, clock)
    LiveDriver(engine, load, executor, clock).run()


def counted(policy: str, load: Load) -> tuple[int, Counter[str]]:
    """Calls of functions, and byte codes by file."""
    codes: Counter[str] = Counter()
    calls = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            codes[frame.f_code.co_filename] += 1
        return inside

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal calls
        name = frame.f_code.co_filename
        if name != "<string>" and not Path(name).is_relative_to(PACKAGE):  # made by dataclasses: "<string>"
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        calls += 1
        return inside

    run(policy, load)  # fills caches
    sys.settrace(entered)
    run(policy, load)
    sys.settrace(None)
    found: Counter[str] = Counter()
    for name, count in codes.items():
        short = "made functions" if name == "<string>" else str(Path(name).relative_to(PACKAGE))
        if short not in LEFT_OUT:
            found[short] += count
    return calls, found


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", default="edf:planned,headway")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    load = Load(options.seconds, options.seed)
    requests = len(load.arrivals)
    print(f"Python {sys.version.split()[0]}, seed {options.seed}, {requests} requests; counts a request\n")
    print("| policy | file | byte codes |\n| --- | --- | --- |")
    for policy in options.policies.split(","):
        calls, found = counted(policy, load)
        print(f"| {policy} | all, in {calls / requests:.0f} calls | {found.total() / requests:.0f} |")
        for name, count in found.most_common(SHOWN):
            print(f"| | {name} | {count / requests:.0f} |")


if __name__ == "__main__":
    main()
