"""What must hold whatever a policy does: with one that does anything it may, on made-up and on real costs."""

import dataclasses
import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.config import load_hardware
from headway.core.block import Mode
from headway.core.decision_time import DecisionCharge
from headway.core.engine import Engine
from headway.core.messages import Adjust, Dispatch, Drop, Preempt, Wake
from headway.core.protocols import Capability
from headway.core.run import How
from headway.cost.contention import MaxMinFair, Proportional
from headway.cost.table import build_table
from headway.models import at_width, load_model, merge, zoo
from headway.policies import Policy
from headway.predict.analytic import AnalyticEstimator
from headway.record.conservation import check_conservation
from headway.record.log import MemoryLog
from headway.sim.driver import Simulation
from headway.testing import Listed, ToyTable, toy_device, toy_request


def cores_of(kinds, idle, kind_of):
    """One idle core for each kind in turn, or None."""
    pool, chosen = list(idle), []
    for kind in kinds:
        core = next((core for core in pool if kind_of(core) == kind), None)
        if core is None:
            return None
        pool.remove(core)
        chosen.append(core)
    return tuple(chosen)


class Free:
    """Which cores can be promised to whom, as an answer unfolds."""

    def __init__(self, view, idle):
        self.idle = list(idle)
        self.going = {run: run.moving_to for run in (*view.running, *view.moving) if run.moving_to}
        self.stopping = {run for run in view.running if run.stopping is not None}

    def moving_to(self, run):
        return self.going.get(run)

    def stops(self, run):
        self._stay(run)
        self.stopping.add(run)

    def moves(self, run, cores):
        if not self.moving_to(run) and set(cores) == set(run.cores):
            return
        self._stay(run)
        self.going[run] = cores
        self.stopping.add(run)
        self.idle = [core for core in self.idle if core not in cores]

    def able(self, run, view):
        promised = {core for other, cores in self.going.items() if other is not run for core in cores}
        given_up = [core for other in view.running if other in self.stopping for core in other.cores]
        mine = [*run.cores, *(self.moving_to(run) or ())]
        return list(dict.fromkeys(core for core in (*self.idle, *mine, *given_up) if core not in promised))

    def _stay(self, run):
        busy = {core for other in self.stopping | set(self.going) for core in other.cores}
        back = self.going.pop(run, ())
        self.idle += [core for core in back if core not in busy and core not in self.idle]


class RandomPolicy(Policy):
    """Starts, resumes, stops, moves, throttles and drops at random, in all modes; `step_s` is about how often
    it wakes."""

    needs = frozenset(Capability)

    def __init__(self, seed, step_s):
        self.random = random.Random(seed)
        self.step_s = step_s
        self.did = Counter()

    def key(self, request, view):
        return (self.random.random(),)

    def decide(self, view):
        draw = self.random
        idle = list(view.idle)
        for request in view.ready:
            fate = draw.random()
            if fate < 0.03:
                yield Drop(request, "at random")
                self.did["drop"] += 1
            elif idle and fate > 0.2:
                dispatch = self.resume(request, idle) or self.start(request, view, idle)
                self.did[dispatch.mode.value] += 1
                idle = [core for core in idle if core not in dispatch.cores]
                yield dispatch
        free = Free(view, idle)
        for run in view.running:
            fate = draw.random()
            if fate < 0.15:
                how = draw.choice(list(How))
                self.did[how.value] += run.stopping is None
                free.stops(run)
                yield Preempt(run, how)
            elif fate < 0.17:
                self.did["drop running"] += 1
                free.stops(run)
                yield Drop(run.request, "while it ran")
            elif fate < 0.25:
                self.did["cap"] += 1
                most = view.device.dram_bandwidth_bytes_s
                yield Adjust(run, bandwidth_cap_bytes_s=draw.choice([0.1 * most, 0.6 * most, math.inf]))
            elif fate < 0.6:
                cores = self.elsewhere(run, view, free)
                if cores:
                    self.did["move"] += 1
                    free.moves(run, cores)
                    yield Adjust(run, cores)
        for run in view.moving:
            self.did["wait for cores"] += 1
            if draw.random() < 0.05:
                self.did["drop moving"] += 1
                yield Drop(run.request, "between two runs")
        yield Wake(view.now + self.step_s * draw.choice([0.02, 0.2, 1.0]))

    def elsewhere(self, run, view, free):
        """Cores that a run can move to, or None."""
        if run.stopping is not None and not free.moving_to(run):
            return None
        able = free.able(run, view)
        cores = tuple(self.random.sample(able, self.random.randint(1, min(3, len(able)))))
        first, kind_of = run.segments[run.segment].end_block, view.device.kind_of
        kinds = tuple(kind_of[core.index] for core in cores)
        mode = Mode.SERIAL if len(cores) == 1 else Mode.SPLIT
        try:
            if first < run.blocks.stop:
                view.table(run.request).option(mode, first, run.blocks.stop, kinds)
        except ValueError:
            return None
        return cores

    def resume(self, request, idle):
        """Go on where a stopped run left off, more often than not."""
        partial = request.partial
        cores = partial and cores_of(partial.kinds, idle, lambda core: core.kind)
        if not cores or self.random.random() < 0.3:
            return None
        self.did["resume"] += 1
        longer = partial.mode in (Mode.SERIAL, Mode.SPLIT)
        end = self.random.randint(partial.end, request.blocks) if longer else partial.end
        return Dispatch(
            (request,), range(partial.first, end), cores, partial.mode, partial.cuts, partial.band_rows
        )

    def start(self, request, view, idle):
        """Any run that the cost table offers, or else a serial one."""
        draw, table, block = self.random, view.table(request), request.next_block
        kind_of = view.device.kind_of
        draw.shuffle(idle)
        end = draw.randint(block + 1, request.blocks)
        choice = draw.choice(["serial", "fused", "pipeline", "split"])
        options = {"fused": table.stacks, "pipeline": table.pipelines}.get(choice, lambda _: ())(block)
        for option in draw.sample(list(options), min(3, len(options))):
            cores = cores_of(option.kinds, idle, lambda core: kind_of[core.index])
            if cores:
                return Dispatch(
                    (request,), range(block, option.end), cores, option.mode, option.cuts, option.band_rows
                )
        cores = tuple(idle[: draw.randint(2, len(idle))]) if len(idle) > 1 else ()
        if choice == "split" and cores:
            try:
                table.option(Mode.SPLIT, block, end, tuple(kind_of[core.index] for core in cores))
            except ValueError:
                pass
            else:
                return Dispatch((request,), range(block, end), cores, Mode.SPLIT)
        return Dispatch((request,), range(block, end), (idle[0],))


def simulate(policy, device, tables, requests, *, noise=None, rule=None, charge=None):
    """The log of a simulation, with what the checks ask of its description."""
    cores = [{"index": core.index, "name": core.name, "kind": core.kind} for core in device.cores]
    bandwidth = device.dram_bandwidth_bytes_s
    sink = MemoryLog({"device": {"cores": cores, "dram_bandwidth_bytes_s": bandwidth}})
    rule = rule or MaxMinFair(bandwidth)
    engine = Engine(device, policy, AnalyticEstimator(device, tables, rule), rule, sink, charge=charge)
    factors = noise or {}
    policy.engine = engine
    Simulation(
        engine, Listed(requests), device, tables, rule, lambda r: factors.get(r.id, (1.0,) * r.blocks)
    ).run()
    assert engine.idle == list(device.cores)  # whatever was reserved was given back
    assert not engine.moves.by_request
    return sink.table()


def requests_of(draw, tables, count):
    span_s = sum(table.remaining_s[0] for table in tables.values())
    requests = [
        toy_request(
            index,
            draw.choice(sorted(tables)),
            tables,
            arrival_s=draw.choice([0.0, span_s, draw.random() * 3 * span_s]),
            deadline_s=draw.random() * 5 * span_s,
        )
        for index in range(count)
    ]
    for request in requests:
        if draw.random() < 0.1:
            request.expires_s = request.arrival_s + 0.2 * span_s
    noise = {r.id: [draw.lognormvariate(0.0, 0.3) for _ in range(r.blocks)] for r in requests}
    return requests, draw.choice([None, noise]), span_s


def problems(log, requests):
    found = check_conservation(log)
    rows = log.table.to_pylist()
    replies = Counter(row["request"] for row in rows if row["event"] == "reply")
    if replies != Counter(request.id for request in requests):
        found.append(f"replies: {replies}")
    times = [row["time_s"] for row in rows]
    if times != sorted(times):
        found.append("time runs backwards")
    return found


def toy_scene(draw):
    bandwidth = draw.choice([1e6, 1e9, 1e15])
    kinds = [draw.choice("ab") for _ in range(draw.choice([1, 2, 4]))]
    device = toy_device(len(kinds), bandwidth_bytes_s=bandwidth, kinds=kinds)
    tables = {}
    for name in "xyz":
        blocks = [
            (draw.choice([0.0, 1e-3, draw.random() * 1e-3]), draw.choice([0.0, 1e5, draw.random() * 1e6]))
            for _ in range(draw.choice([1, 2, 5, 9]))
        ]
        tables[name] = ToyTable(
            device,
            blocks,
            scale=[1.0, 2.0][: len(device.kinds)],
            steps=draw.choice([1, 3, 8]),
            kept=draw.choice([0.0, 1e4]),
            spill_bytes=draw.choice([0.0, 1e5]),
        )
    return device, tables


@pytest.mark.parametrize("seed", [*range(40), 1175])  # 1175: a kill at the very end of the last block
def test_made_up_costs(seed):
    draw = random.Random(seed)
    device, tables = toy_scene(draw)
    requests, noise, span_s = requests_of(draw, tables, 20)
    rule = draw.choice([MaxMinFair, Proportional])(device.dram_bandwidth_bytes_s)
    policy = RandomPolicy(seed, step_s=span_s / 3 or 1e-3)
    assert problems(simulate(policy, device, tables, requests, noise=noise, rule=rule), requests) == []


class Watched(RandomPolicy):
    """Finds every core in one place, at every decision."""

    def decide(self, view):
        kept = [core for move in self.engine.moves.by_request.values() for core in move.kept]
        busy = [core.index for run in view.running for core in run.cores]
        assert sorted([*kept, *busy, *(core.index for core in view.idle)]) == list(
            range(len(view.device.cores))
        )
        asked = sum(min(run.bandwidth_bytes_s, run.bandwidth_cap_bytes_s) for run in view.running)
        assert view.bandwidth_free() == pytest.approx(view.device.dram_bandwidth_bytes_s - asked)
        return super().decide(view)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    cores=st.integers(2, 6),
    blocks=st.integers(1, 12),
    count=st.integers(2, 15),
    charge=st.sampled_from([None, DecisionCharge(1e-5, 1e-6, 1e-6)]),
)
def test_whoever_moves_gets_there_and_gives_everything_back(seed, cores, blocks, count, charge):
    device = toy_device(cores)
    tables = {"m": ToyTable(device, [(1e-3, 4e5)] * blocks, steps=2)}
    requests, noise, span_s = requests_of(random.Random(seed), tables, count)
    policy = Watched(seed, step_s=span_s / 5)
    assert problems(simulate(policy, device, tables, requests, noise=noise, charge=charge), requests) == []


@pytest.fixture(scope="module")
def models():
    return {
        name: load_model(zoo.build(name, batch=1, weights=False), name=name)
        for name in ("kws_res8", "yolo_lite", "fsrcnn")
    }


@pytest.mark.parametrize("bandwidth", [1e6, 4e9, 1e13])
@pytest.mark.parametrize("hardware", ["stream-hetero4", "moca8"])
def test_real_costs_in_all_modes(hardware, bandwidth, models):
    device = dataclasses.replace(load_hardware(hardware), dram_bandwidth_bytes_s=bandwidth)
    tables = {
        name: build_table(merge(at_width(graph, device.operand_bytes)), device)
        for name, graph in models.items()
    }
    did = Counter()
    for seed in range(4):
        requests, noise, span_s = requests_of(random.Random(seed), tables, 15)
        policy = RandomPolicy(seed, step_s=span_s / 10)
        log = simulate(policy, device, tables, requests, noise=noise)
        assert problems(log, requests) == []
        did += policy.did
    expected = {"serial", "fused", "split", "resume", "spill", "drain", "kill", "drop", "drop running"}
    expected |= {"move", "cap"}
    assert expected <= set(did)


def test_a_serial_run_stopped_at_every_block_pays_for_the_outputs_that_it_leaves(models):
    class Stopper(Policy):
        """Runs on core 0 to the end; `stops` when it is woken."""

        needs = frozenset({Capability.PREEMPT})

        def __init__(self, stops):
            self.stops = stops

        def decide(self, view):
            for request in view.ready:
                yield Dispatch((request,), range(request.next_block, request.blocks), view.device.cores[:1])
            if self.stops:
                yield from (Preempt(run, How.DRAIN) for run in view.running)
                yield Wake(view.now + 1e-7)

    device = load_hardware("stream-hetero4")
    graph = merge(at_width(models["kws_res8"], device.operand_bytes))
    tables = {"m": build_table(graph, device)}
    totals = []
    for stops in (False, True):
        request = toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)
        log = simulate(Stopper(stops), device, tables, [request])
        rows = log.where("progress")
        totals.append((log.floats("dram_bytes")[rows].sum(), log.floats("macs")[rows].sum()))
        assert (len(log.where("stop")) > 3) == stops
    (whole_bytes, whole_macs), (parts_bytes, parts_macs) = totals
    cold_bytes = sum(row[device.kind_of[0]].dram_bytes for row in tables["m"].serial)
    assert parts_macs == pytest.approx(whole_macs)
    assert whole_bytes < parts_bytes < cold_bytes
