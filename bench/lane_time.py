"""Processor time of one thread per request: the whole model, its chain, and the chain on a lane.

Wall times say little on a machine that others use; the time that a thread had the processor says what it did.
Printed are the least and the lower quartile over requests, and both over the whole model's.

With `--sums` chains cut behind each sum of a residual model, and before and behind each, are added: with sums
made in place (see `headway.models.takeovers`), and as they are where they cannot be.

    python bench/lane_time.py --models resnet18,mobilenet_v2 --policy fcfs
    python bench/lane_time.py --models resnet50 --sums
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from statistics import quantiles
from time import thread_time

from onnx import ModelProto

from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.messages import Arrive, Reply
from headway.core.request import Request
from headway.cost.contention import OverlapLoss
from headway.cost.lanes import LaneTable
from headway.live.clock import WallClock
from headway.live.driver import LiveDriver
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor, ReplayInputs
from headway.live.processors import available, staying_on
from headway.live.profiler import Intake, take_in
from headway.models import zoo
from headway.models.boundary_buffers import plan_buffers
from headway.models.chain import SplitModel
from headway.models.prepared import prepare
from headway.models.profile import DeviceProfile
from headway.models.split import split
from headway.models.takeovers import sums_of
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.record.log import MemoryLog

LANES = [available()[:1]]
DEVICE = Device.of_lanes("one lane", 1, 1, "")
BACKLOG = 10


class Backlog:
    """Requests of one model that all arrive at once."""

    def __init__(self, intake: Intake) -> None:
        self._total_s = sum(intake.profile.seconds(1))
        self._blocks = len(intake.split.blocks)

    def first(self) -> Iterable[Arrive]:
        """All of them."""
        for id in range(BACKLOG):
            yield Arrive(Request(id, "", id, "", 0.05, 1e6, self._blocks, self._total_s))

    def after(self, reply: Reply, now: float) -> Iterable[Arrive]:
        """None."""
        return ()


def on_lane(intake: Intake, policy: str) -> list[float]:
    """Seconds of the lane's thread from result to result, the first two requests left out."""
    ends_s: list[float] = []
    table = LaneTable(intake.profile, DEVICE, DeviceProfile("", "", 0, 0.0, 0.0, 0.0))
    rule, log = OverlapLoss(0.0), MemoryLog({})
    engine = Engine(DEVICE, make(policy), AnalyticEstimator(DEVICE, {"": table}, rule), rule, log)
    executor = OnnxRuntimeExecutor(
        {"": intake.split},
        LANES,
        ReplayInputs({"": intake.inputs}),
        on_result=lambda *_: ends_s.append(thread_time()),
    )
    try:
        executor.prepare("", DEVICE.cores)
        LiveDriver(engine, Backlog(intake), executor, WallClock()).run()
    finally:
        executor.close()
    return [later - earlier for earlier, later in pairwise(ends_s[1:])]


def chains_at_sums(model: ModelProto) -> dict[str, SplitModel]:
    """Chains cut at the model's sums, with those made in place and without."""
    prepared = prepare(model)
    legal = {cut.position for cut in prepared.cuts}
    sums = sums_of(prepared.graph)
    behind = legal & {each.place + 1 for each in sums}
    found = {}
    for words, cuts in (("behind sums", behind), ("around sums", behind | (legal & {s.place for s in sums}))):
        chain = found[f"{words}, in place"] = split(prepared, sorted(cuts))
        lives = [(slot.name, slot.type, slot.made_in, slot.last_used_in) for slot in chain.plan.slots]
        found[f"{words}, copied"] = replace(chain, plan=plan_buffers(lives), _pool=[], _open=set())
    return found


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="resnet18,mobilenet_v2", help="of the zoo, comma-separated")
    parser.add_argument("--policy", default="fcfs")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--sums", action="store_true", help="chains cut at sums instead of a lane")
    options = parser.parse_args()
    print(
        "| model | what | blocks | requests | least ms | lower quartile ms | least over whole | quartiles |"
    )
    print("|" + " --- |" * 8, flush=True)
    for name in options.models.split(","):
        model = zoo.build(name)
        intake = take_in(model, {1: LANES[0]})
        chains = {"whole": split(prepare(model), ()), "chain": intake.split}
        chains |= chains_at_sums(model) if options.sums else {}
        runs: dict[str, Callable[[], None]] = {}
        for words, chain in chains.items():
            sessions, buffers = chain.open(), chain.bind(intake.inputs)
            runs[words] = lambda sessions=sessions, buffers=buffers: sessions.run(buffers)
        times: dict[str, list[float]] = {words: [] for words in (*runs, *(() if options.sums else ("lane",)))}
        for _ in range(options.repeats):
            with staying_on(LANES[0]):
                for run in runs.values():
                    run()
                for _ in range(BACKLOG):
                    for words, run in runs.items():
                        began_s = thread_time()
                        run()
                        times[words].append(thread_time() - began_s)
            if not options.sums:
                times["lane"] += on_lane(intake, options.policy)
        least_s, quarter_s = min(times["whole"]), quantiles(times["whole"])[0]
        for words, seconds in times.items():
            blocks = len(chains.get(words, intake.split).blocks)
            low, quarter = min(seconds), quantiles(seconds)[0]
            cells = [name, words, str(blocks), str(len(seconds)), f"{1e3 * low:.2f}", f"{1e3 * quarter:.2f}"]
            print("| " + " | ".join([*cells, f"{low / least_s:.3f}", f"{quarter / quarter_s:.3f}"]) + " |")


if __name__ == "__main__":
    main()
