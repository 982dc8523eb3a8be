"""Whatever a policy does with batches: nothing is lost or done twice, and what they cost is shared."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.block import Mode
from headway.core.engine import Engine
from headway.core.messages import Dispatch, Drop, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.run import How
from headway.cost import OverlapLoss
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.record.columns import by_request, stretches_of
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.record.metrics import summarise
from headway.sim.driver import Simulation
from headway.testing import Listed, toy_lane_table, toy_lanes, toy_request

MS = 1e-3
MODELS = {
    "a": {1: [1 * MS, 2 * MS, 1 * MS], 2: [0.7 * MS, 1.1 * MS, 0.6 * MS]},
    "b": {1: [3 * MS], 2: [2 * MS]},
    "c": {1: [0.5 * MS] * 5, 2: [0.3 * MS] * 5},
}
FACTORS = {2: 1.4, 4: 2.2, 8: 4.0}


class RandomBatches(Policy):
    """Runs whatever may run together, of random sizes and lengths; stops and drops at random."""

    needs = frozenset({Capability.BATCH, Capability.SPLIT, Capability.PREEMPT})

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.did = Counter()

    def decide(self, view):
        draw, idle, taken = self.random, list(view.idle), set()
        for request in view.ready:
            if request.id in taken:
                continue
            if draw.random() < 0.04:
                taken.add(request.id)
                yield Drop(request, "at random")
                continue
            if not idle or draw.random() < 0.2:
                continue
            members = [request]
            for other in view.ready:
                if (
                    other.id not in taken
                    and other is not request
                    and (other.model, other.next_block) == (request.model, request.next_block)
                    and len(members) < min(other.most_batch, *(member.most_batch for member in members))
                    and draw.random() < 0.8
                ):
                    members.append(other)
            taken |= {member.id for member in members}
            cores = tuple(idle[: draw.randint(1, min(2, len(idle)))])
            del idle[: len(cores)]
            end = draw.randint(request.next_block + 1, request.blocks)
            mode = Mode.SPLIT if len(cores) > 1 else Mode.SERIAL
            self.did[len(members)] += 1
            yield Dispatch(tuple(members), range(request.next_block, end), cores, mode)
        for run in view.running:
            fate = draw.random()
            if fate < 0.15:
                yield Preempt(run, draw.choice([How.DRAIN, How.SPILL, How.KILL]))
            elif fate < 0.25:
                self.did["drop running"] += 1
                yield Drop(draw.choice(run.requests), "while it ran")
        yield Wake(view.now + draw.choice([0.3, 1.0]) * MS)


def simulated(policy, count, seed):
    draw = random.Random(seed)
    device = toy_lanes(2)
    tables = {
        name: toy_lane_table(device, seconds, dispatch_s=0.02 * MS, batches=FACTORS, name=name)
        for name, seconds in MODELS.items()
    }
    requests = []
    for at in range(count):
        model = draw.choice("aabc")
        arrival_s = draw.choice([0.0, 2 * MS, draw.random() * 30 * MS])
        requests.append(
            toy_request(
                at,
                model,
                tables,
                arrival_s=arrival_s,
                deadline_s=arrival_s + draw.random() * 40 * MS,
                tenant=draw.choice("xy"),
                most_batch=draw.choice([1, 4, 8, 8, 8]),
            )
        )
        if draw.random() < 0.1:
            requests[-1].expires_s = arrival_s + 2 * MS
    noise = {r.id: [draw.lognormvariate(0.0, 0.2) for _ in range(r.blocks)] for r in requests}
    cores = [{"index": core.index, "name": core.name, "kind": core.kind} for core in device.cores]
    sink = MemoryLog({"device": {"cores": cores}})
    rule = OverlapLoss(0.3)
    engine = Engine(device, policy, AnalyticEstimator(device, tables, rule), rule, sink)
    Simulation(engine, Listed(requests), device, tables, rule, lambda r: noise[r.id]).run()
    assert engine.idle == list(device.cores)
    return sink.table(), requests


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 25))
def test_nothing_is_lost_or_done_twice(seed, count):
    log, requests = simulated(RandomBatches(seed), count, seed)
    assert check_conservation(log) == []
    replies = Counter(row["request"] for row in log.table.to_pylist() if row["event"] == "reply")
    assert replies == Counter(request.id for request in requests)


def test_the_random_policy_makes_batches_and_drops_members():
    did = Counter()
    for seed in range(5):
        policy = RandomBatches(seed)
        simulated(policy, 25, seed)
        did += policy.did
    assert {1, 2, 3, "drop running"} <= set(did)
    assert max(size for size in did if isinstance(size, int)) > 3


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_a_batch_costs_is_shared_by_its_tenants_and_adds_up(seed):
    log, _ = simulated(RandomBatches(seed), 20, seed)
    summary = summarise(log)
    busy_s = sum(core.busy_s for core in summary.cores)
    assert summary.total.core_s == pytest.approx(busy_s)
    assert sum(scores.core_s for scores in summary.tenants.values()) == pytest.approx(busy_s)
    work = stretches_of(log)
    shared = by_request(log, work)
    assert math.isclose(shared.core_seconds.sum(), work.core_seconds.sum(), abs_tol=1e-12)


def test_the_same_seed_gives_the_same_log():
    first, second = (simulated(RandomBatches(7), 25, 7)[0].table.to_pylist() for _ in range(2))
    assert first == second
