"""What Lucas does where things are tight, late, simultaneous or zero: one test or more for each edge case."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from headway.core.block import Mode, Option
from headway.core.device import Core, Dataflow, Device, Link
from headway.core.run import Outcome
from headway.cost import build_table, input_buffer_rows
from headway.models.graph import Graph, Layer, LayerKind, LoopDims, Operand
from headway.policies import make, names
from headway.policies.lucas_pricing import Pressure, Regards
from headway.record.metrics import summarise
from headway.testing import ToyTable, play, toy_device, toy_request

MS = 1e-3
KIB = 1024

LUCAS = [name for name in names() if name.partition(":")[0] == "lucas" and name != "lucas:oracle"]


def convolutions(*layers, height=64, channels=16, skip=None, whole=()):
    """A chain of 3x3 convolutions on 64 columns, as (channels out, stride); one byte per element.

    `skip` = (reader, producer) adds the producer's output to the reader's; layers in `whole` need all rows
    of their input before their first.
    """
    made = []
    read = Operand("input", channels * height * 64, height, None, True, False)
    for index, (out, stride) in enumerate(layers):
        rows = read.rows // stride
        dims = LoopDims(
            K=out, C=channels, OY=rows, OX=64, FY=3, FX=3, stride_y=stride, stride_x=1, pad_top=1, pad_left=1,
            pad_bottom=1, pad_right=1, groups=1, IY=read.rows, IX=64,
        )  # fmt: skip
        operands = [replace(read, row_wise=index not in whole)]
        if skip is not None and skip[0] == index:
            other = made[skip[1]]
            operands.append(
                Operand(other.output, other.output_bytes, other.output_rows, other.index, True, True)
            )
        weights = out * channels * 9
        made.append(
            Layer(
                index=index, name=f"conv{index}", op="Conv", kind=LayerKind.CONV, dims=dims, macs=dims.macs,
                vector_ops=0, params=weights, weight_bytes=weights, operands=tuple(operands),
                output=f"t{index}", output_bytes=out * rows * 64, output_rows=rows, row_kernel=3,
                row_stride=stride, row_pad=1, is_output=index + 1 == len(layers),
            )
        )  # fmt: skip
        channels, read = out, Operand(f"t{index}", out * rows * 64, rows, index, True, False)
    weights = sum(layer.weight_bytes for layer in made)
    return Graph("chain", tuple(made), "hash", weights, weights)


def accelerator(*, cores=1, sram=256 * KIB, bandwidth=1e9):
    """Equal output-stationary cores of 32 x 32."""
    return Device(
        "small",
        tuple(
            Core(i, f"c{i}", "os", 32, 32, Dataflow.OUTPUT_STATIONARY, 1e9, sram, 32, 0.04, 1.0)
            for i in range(cores)
        ),
        bandwidth, 16.0, Link(4e9, 1.0), 1.0, 1e-6, 1e-7,
    )  # fmt: skip


CHAIN = ((16, 1),) * 4


def scene(*requests, cores=1, kinds=None, bandwidth=1e9, **tables):
    """Requests as (model, arrival ms, relative deadline ms) on a toy device."""
    device = toy_device(cores, kinds=kinds, bandwidth_bytes_s=bandwidth)
    made = {
        name: table(device) if callable(table) else ToyTable(device, table[0], **table[1])
        for name, table in tables.items()
    }
    return (
        device,
        made,
        [
            toy_request(i, model, made, arrival_s=at * MS, deadline_s=(at + due) * MS)
            for i, (model, at, due) in enumerate(requests)
        ],
    )


def ends(log):
    return {row.request: row.time_s for row in log.of("reply")}


# --- SRAM overflow -----------------------------------------------------------------------------------


def best_stack(sram, length):
    """The stack of that many layers from the first on, as offered; None if none is."""
    table = build_table(convolutions(*CHAIN), accelerator(sram=sram))
    return next((o for o in table.stacks(0) if o.end == length), None)


def test_less_sram_first_lowers_the_band_then_redoes_rows_then_shortens_the_stack_then_ends_fusion():
    plain = sum(layer.macs for layer in convolutions(*CHAIN).layers)
    steps = []
    for sram in range(128 * KIB, 8 * KIB, -KIB):
        stack = best_stack(sram, 4)
        if stack is None:
            shorter = any(best_stack(sram, length) is not None for length in (2, 3))
            steps.append("shorter" if shorter else "plain")
        else:
            assert stack.sram_bytes <= sram
            steps.append("cached" if stack.macs == plain else "recomputed")
            assert stack.macs <= 1.1 * plain
    order = ["cached", "recomputed", "shorter", "plain"]
    assert set(steps) >= {"cached", "shorter", "plain"}
    assert [step for step in steps if step != "recomputed"] == sorted(
        (step for step in steps if step != "recomputed"), key=order.index
    )
    roomy, tight = best_stack(128 * KIB, 4), best_stack(48 * KIB, 4)
    assert tight.band_rows < roomy.band_rows


def test_weights_are_streamed_only_if_that_is_less_than_what_fusion_saves():
    graph = convolutions((32, 1), (32, 1), (32, 1), channels=32)
    weights, streamed = graph.weight_bytes, 0
    for sram in range(24 * KIB, 96 * KIB, 2 * KIB):
        for option in build_table(graph, accelerator(sram=sram)).stacks(0):
            again = option.dram_bytes - weights - 32 * 64 * 64 * 2 if option.end == 3 else 0.0
            streamed += again > 0.0
            assert option.dram_bytes < option.serial_dram_bytes
    assert streamed


def test_a_layer_that_fits_nowhere_is_tiled_and_runs_layer_by_layer():
    device = accelerator(sram=4 * KIB)
    tables = {"m": build_table(convolutions(*CHAIN), device)}
    assert not tables["m"].stacks(0)
    log = play(make("lucas"), device, tables, [toy_request(0, "m", tables, arrival_s=0.0, deadline_s=1.0)])
    assert {row.mode for row in log.of("start")} == {"serial"}
    assert [row.outcome for row in log.of("reply")] == ["done"]


# --- halo, strides, barriers, branches ---------------------------------------------------------------


def test_cached_halo_repeats_no_work():
    option = build_table(convolutions(*CHAIN), accelerator()).option(Mode.FUSED, 0, 4, (0,), band_rows=8)
    assert option.macs == sum(layer.macs for layer in convolutions(*CHAIN).layers)


def test_a_recomputed_halo_is_paid_for_in_work_time_and_energy():
    cached = build_table(convolutions(*CHAIN), accelerator()).option(Mode.FUSED, 0, 4, (0,), band_rows=32)
    sram = int(cached.sram_bytes) - 1
    again = build_table(convolutions(*CHAIN), accelerator(sram=sram)).option(
        Mode.FUSED, 0, 4, (0,), band_rows=32
    )
    assert 1.0 < again.macs / cached.macs <= 1.1
    assert again.compute_s > cached.compute_s
    assert again.energy_pj > cached.energy_pj


def test_strides_multiply_the_rows_that_earlier_layers_make():
    # 2 rows of the last take 2 x 2 + 1 of its producer, which makes 4 new ones from 4 x 2 + 1.
    assert input_buffer_rows([3, 3], [2, 2], [64, 32], band=2) == (9, 5)
    table = build_table(convolutions((16, 2), (16, 2), height=256), accelerator())
    assert table.option(Mode.FUSED, 0, 2, (0,), band_rows=4).steps == 16  # 64 of 256 rows are left


def test_no_band_crosses_a_layer_that_needs_all_rows():
    table = build_table(convolutions(*CHAIN, whole=(2,)), accelerator(sram=1024 * KIB))
    crossing = [o for first in range(2) for o in table.stacks(first) if o.end > 2]
    assert all(option.steps == 1 for option in crossing)  # only one band that covers the axis may cross it
    assert not [o for first in range(2) for o in table.pipelines(first) if o.end > 2 and o.steps > 1]


def test_a_skip_tensor_is_held_inside_a_stack_and_read_again_from_outside():
    device = accelerator(sram=1024 * KIB)
    with_skip = build_table(convolutions(*CHAIN, skip=(3, 0)), device)
    without = build_table(convolutions(*CHAIN), device)

    def both(first):
        return (table.option(Mode.FUSED, first, 4, (0,), band_rows=8) for table in (with_skip, without))

    inside, plain = both(0)
    assert inside.dram_bytes == plain.dram_bytes
    assert inside.sram_bytes > plain.sram_bytes
    outside, plain = both(1)  # both read the same input, which is the skip tensor
    assert outside.dram_bytes == plain.dram_bytes
    outside, plain = both(2)
    assert outside.dram_bytes == plain.dram_bytes + 16 * 64 * 64


# --- residency and retention -------------------------------------------------------------------------


def test_nothing_is_shared_between_requests_of_one_model():
    device = accelerator()
    tables = {"m": build_table(convolutions(*CHAIN), device)}
    requests = [toy_request(i, "m", tables, arrival_s=0.0, deadline_s=1.0) for i in range(2)]
    log = play(make("lucas"), device, tables, requests)
    moved = [
        sum(row.dram_bytes for row in log.of("progress") if row.request == request) for request in (0, 1)
    ]
    assert moved[0] == moved[1] > 0.0


@pytest.mark.parametrize("name", ["lucas", "lucas:lbl"])
def test_a_request_goes_on_where_its_input_still_lies(name):
    # Two equal cores; request 0 starts on core 0, request 1 on core 1. Each block leaves 0.9 of 1 MB.
    kept = ([(1 * MS, 1e6)] * 12, {"kept": 0.9e6})
    log = play(make(name), *scene(("m", 0, 90), ("m", 0.1, 90), cores=2, m=kept))
    cores = {}
    for row in log.of("start"):
        cores.setdefault(row.request, set()).add(row.cores)
    assert cores == {0: {"0"}, 1: {"1"}}


# --- bandwidth ---------------------------------------------------------------------------------------


class Scene:
    """A view with given numbers of cores and requests; the runs ask for some bandwidth."""

    def __init__(self, *, idle, ready, running, asked):
        self.now, self.device = 0.0, toy_device(idle + running)
        self.idle, self.ready = self.device.cores[:idle], [None] * ready
        self.running, self._asked = [None] * running, asked

    def bandwidth_free(self):
        return self.device.dram_bandwidth_bytes_s - self._asked

    def memory_free(self, core):
        return core.sram_bytes


@pytest.mark.parametrize(
    ("asked", "psi", "share"),
    [(0.0, 0.0, 1.0), (0.5e9, 0.0, 0.5), (0.75e9, 0.5, 0.25), (1e9, 1.0, 0.25), (4e9, 1.0, 0.25)],
)
def test_bandwidth_that_is_asked_for_has_a_price_and_leaves_no_less_than_an_equal_share(asked, psi, share):
    pressure = Pressure(Scene(idle=1, ready=1, running=3, asked=asked), Regards())
    assert pressure.psi == pytest.approx(psi)
    assert 2.0 ** (-pressure.level / 4) == pytest.approx(share, rel=0.1)


def test_runs_that_ask_for_more_than_there_is_share_it():
    blocks = ([(1 * MS, 4e6)] * 4, {})
    log = play(make("lucas:lbl"), *scene(*[("m", 0, 500)] * 4, cores=4, m=blocks))
    moved = sum(row.dram_bytes for row in log.of("progress"))
    assert max(ends(log).values()) >= moved / 1e9 - 1e-12


def test_a_stack_is_priced_at_the_bandwidth_there_is_when_it_is_launched():
    # Alone a block takes as long to compute as to move; fused it moves half. While another run moves at full
    # speed, half the bandwidth is left: plain blocks would take twice as long, the stack does not.
    tables = {"m": ([(2 * MS, 1.9e6)] * 4, {}), "mover": ([(1 * MS, 30e6)], {})}
    alone = play(make("lucas:scf"), *scene(("m", 0, 500), cores=2, **tables))
    beside = play(make("lucas:scf"), *scene(("mover", 0, 500), ("m", 0, 500), cores=2, **tables))
    stack = next(row for row in beside.of("start") if row.model == "m")
    assert stack.mode == "fused"
    assert ends(alone)[0] == pytest.approx(8 * MS)
    assert ends(beside)[1] == pytest.approx(8 * MS)


# --- arrivals during a run ---------------------------------------------------------------------------

STACKED = ([(2 * MS, 4e6)] * 5, {"steps": 10})  # fused: 10 ms in ten bands


def test_an_arrival_with_time_to_spare_does_not_stop_a_stack():
    log = play(
        make("lucas"), *scene(("m", 0, 100), ("short", 0.5, 60), m=STACKED, short=([(1 * MS, 0.0)], {}))
    )
    assert log.of("start")[0].mode == "fused"
    assert log.of("stop") == []


def test_an_urgent_arrival_waits_for_one_band_of_a_stack():
    tables = {"m": STACKED, "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas"), *scene(("m", 0, 100), ("short", 0.5, 2.2), **tables))
    first, second = log.of("start")[:2]
    assert (first.mode, second.request) == ("fused", 1)
    band = (first.end_block - first.first_block) * 2 * MS / 10
    assert (
        0.5 * MS < second.time_s <= 0.5 * MS + 2 * band
    )  # that which runs when it is asked to stop, or the next
    assert ends(log)[0] == pytest.approx(11 * MS)  # no band is done twice


def test_without_preemption_it_waits_for_all_of_it():
    tables = {"m": STACKED, "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas:no-preempt"), *scene(("m", 0, 100), ("short", 0.5, 2.2), **tables))
    assert log.of("stop") == []
    assert ends(log)[1] == pytest.approx(11 * MS)


class Draining(ToyTable):
    """Pipelines of ten beats that take another millisecond to drain."""

    def pipelines(self, block: int) -> list[Option]:
        return [self._draining(option) for option in super().pipelines(block)]

    def option(self, mode, first, end, kinds, cuts=(), band_rows=None):
        option = super().option(mode, first, end, kinds, cuts, band_rows)
        return self._draining(option) if mode is Mode.PIPELINE else option

    @staticmethod
    def _draining(option):
        return replace(option, drain_s=1 * MS)


def test_an_urgent_arrival_waits_for_one_beat_of_a_pipeline_and_its_drain():
    tables = {
        "m": lambda device: Draining(device, [(2 * MS, 0.0)] * 10, steps=10),
        "short": ([(1 * MS, 0.0)], {}),
    }
    log = play(make("lucas"), *scene(("m", 0, 14), ("short", 0.5, 3.3), cores=2, **tables))
    first = log.of("start")[0]
    assert (first.mode, first.cores) == ("pipeline", "0+1")
    second = next(row for row in log.of("start") if row.request == 1)
    beat = (first.end_block - first.first_block) * 2 * MS / 2 / 10
    assert second.time_s <= 0.5 * MS + beat + 1 * MS + 1e-9
    assert {row.reason for row in log.of("stop")} == {"spill"}


def test_a_pipeline_that_gets_less_bandwidth_is_slower_on_all_its_cores():
    # Two stages of 5 ms that move 4 MB; a run beside it asks for all there is.
    tables = {"m": ([(5 * MS, 4e6)] * 2, {}), "mover": ([(1 * MS, 40e6)], {})}
    alone = play(make("lucas"), *scene(("m", 0, 9), cores=3, **tables))
    beside = play(make("lucas"), *scene(("mover", 0, 500), ("m", 0, 9), cores=3, **tables))
    (row,) = [row for row in beside.of("progress") if row.model == "m"]
    assert row.cores.count("+") == 1
    assert ends(alone)[0] == pytest.approx(5 * MS)
    assert row.time_s - row.start_s == pytest.approx(8 * MS)  # half of 1 GB/s for 4 MB, on both cores


# --- late requests -----------------------------------------------------------------------------------


def test_a_late_request_takes_one_core_only():
    # 8 ms of work on one core and 4 ms on two, due in 3 ms: beyond saving, so it leaves the other core.
    log = play(make("lucas"), *scene(("m", 0, 3), cores=2, m=([(2 * MS, 4e6)] * 4, {})))
    assert "pipeline" not in {row.mode for row in log.of("start")}
    assert [row.outcome for row in log.of("reply")] == ["done"]


def test_a_late_request_stops_nobody():
    tables = {"m": STACKED, "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas"), *scene(("m", 0, 100), ("short", 0.5, 0.9), **tables))
    assert log.of("stop") == []
    assert ends(log)[1] == pytest.approx(11 * MS)


def test_a_late_run_yields_before_one_that_would_become_late():
    # Two runs of 10 ms: request 0 is late already, request 1 has time. Request 2 needs a core soon.
    tables = {"m": ([(10 * MS, 0.0)], {"steps": 10}), "short": ([(1 * MS, 0.0)], {})}
    log = play(make("lucas"), *scene(("m", 0, 5), ("m", 0, 50), ("short", 0.5, 2.2), cores=2, **tables))
    assert [row.request for row in log.of("stop")] == [0]


def test_requests_that_no_policy_could_save_are_counted_by_themselves(synthetic_run):
    total = summarise(synthetic_run).total
    assert total.infeasible_at_arrival == 3
    assert total.sla_satisfaction == pytest.approx(0.5)
    assert total.sla_satisfaction_feasible == 1.0
    assert total.late == 3


@pytest.fixture
def synthetic_run():
    """Six requests of 2 ms, of which three are due after 1 ms, one after the other."""
    from headway.core.engine import Engine
    from headway.cost.contention import MaxMinFair
    from headway.predict.analytic import AnalyticEstimator
    from headway.record.log import MemoryLog
    from headway.sim.driver import Simulation
    from headway.testing import Listed

    device, tables, requests = scene(
        *[("m", 10 * at, due) for at, due in enumerate([1, 4] * 3)], m=([(2 * MS, 0.0)], {})
    )
    rule, sink = MaxMinFair(1e9), MemoryLog({"policy": "lucas"})
    engine = Engine(device, make("lucas"), AnalyticEstimator(device, tables, rule), rule, sink)
    Simulation(engine, Listed(requests), device, tables, rule, lambda request: (1.0,)).run()
    return sink.table()


# --- simultaneous events -----------------------------------------------------------------------------


def test_a_core_that_comes_free_when_a_request_arrives_is_idle_for_it():
    log = play(make("lucas"), *scene(("m", 0, 50), ("m", 1, 50), m=([(1 * MS, 0.0)], {})))
    assert [row.time_s for row in log.of("start")] == pytest.approx([0.0, 1 * MS])


def test_equal_requests_go_in_the_order_of_their_ids():
    log = play(make("lucas"), *scene(*[("m", 0, 50)] * 5, m=([(1 * MS, 0.0)], {})))
    assert [row.request for row in log.of("start")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", LUCAS)
def test_the_same_requests_give_the_same_log(name):
    requests = [("m" if at % 3 else "c", at * 1.3, 4 + at % 7) for at in range(30)]
    tables = {"m": ([(1 * MS, 4e6)] * 4, {"steps": 4}), "c": ([(2 * MS, 1e5)] * 3, {"steps": 2})}
    logs = [list(play(make(name), *scene(*requests, cores=3, **tables))) for _ in range(2)]
    assert logs[0] == logs[1]
    assert sum(row.outcome == Outcome.DONE for row in logs[0]) == len(requests)


# --- things that are zero, one or infinite -----------------------------------------------------------


@pytest.mark.parametrize("name", LUCAS)
@pytest.mark.parametrize(
    ("blocks", "cores", "bandwidth"),
    [
        pytest.param([(0.0, 0.0)] * 3, 2, 1e9, id="no work at all"),
        pytest.param([(1 * MS, 0.0), (0.0, 0.0), (1 * MS, 0.0)], 2, 1e9, id="no bytes"),
        pytest.param([(0.0, 1e6), (0.0, 1e6)], 2, 1e9, id="no operations"),
        pytest.param([(1 * MS, 1e6)], 1, 1e9, id="one layer, one core"),
        pytest.param([(1 * MS, 1e6)] * 4, 2, math.inf, id="endless bandwidth"),
        pytest.param([(1 * MS, 1e6)] * 4, 2, 1e-3, id="hardly any bandwidth"),
    ],
)
def test_every_request_is_answered(name, blocks, cores, bandwidth):
    requests = [("m", at, due) for at, due in [(0, 0), (0, 3), (0, 50), (1, 2), (5, 500)]]
    log = play(make(name), *scene(*requests, cores=cores, bandwidth=bandwidth, m=(blocks, {})))
    assert sorted(ends(log)) == [0, 1, 2, 3, 4]
    assert all(math.isfinite(at) for at in ends(log).values())


# --- wrong estimates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LUCAS)
def test_estimates_that_are_far_off_delay_but_lose_nothing(name):
    requests = [("m", at, 12) for at in range(8)]
    device, tables, made = scene(*requests, cores=2, m=([(1 * MS, 2e6)] * 4, {"steps": 4}))
    noise = {request.id: ((0.2, 5.0, 1.0, 3.0) if request.id % 2 else (1.0,) * 4) for request in made}
    log = play(make(name), device, tables, made, noise=noise)
    assert sorted(ends(log)) == list(range(8))
