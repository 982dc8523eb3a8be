"""How a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.core.block import Option
from headway.core.expectation import expect_first, left_of, resumption
from headway.core.messages import Dispatch
from headway.core.run import Run

if TYPE_CHECKING:
    from headway.core.engine import Engine


def begin(engine: Engine, run_id: int, dispatch: Dispatch, option: Option, decision_s: float) -> Run:
    """Enter the run of a dispatch among those that run, with what is believed of it.

    It resumes what a stopped run of its request left behind, or discards that, and takes what lies in the
    SRAM of its cores; a batch does neither. `decision_s` passes before it begins to work.
    """
    request, cores = dispatch.requests[0], dispatch.cores
    table = engine.estimator.table(request)
    if dispatch.batch == 1:
        extra = engine.ledger.extra_bytes(request, table, option.first, option.mode, cores)
        resumed, read_back_bytes = resumption(request, option, cores)
        extra += read_back_bytes
    else:
        table, extra, resumed = table.of_batch(dispatch.batch), 0.0, 0.0
    for member in dispatch.requests:
        member.partial = None
    run = Run.of(
        run_id,
        dispatch.requests,
        option,
        cores,
        started_s=engine.now,
        extra_dram_bytes=extra,
        resumed=resumed,
    )
    run.decision_s = decision_s
    if dispatch.bandwidth_cap_bytes_s is not None:
        run.bandwidth_cap_bytes_s = dispatch.bandwidth_cap_bytes_s
    segments = table.segments(option)
    bandwidth = engine.device.dram_bandwidth_bytes_s
    left = left_of(option, segments, resumed, extra, bandwidth)
    run.bandwidth_bytes_s = left.bandwidth_bytes_s
    run.segments = segments
    engine.running.enter(run)
    expect_first(run, segments, left, bandwidth, engine.running.rate(run), engine.now)
    engine.ledger.begin(cores)
    return run
