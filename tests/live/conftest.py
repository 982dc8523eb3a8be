"""A small live world as fixtures: toy devices and tables, forgiving engines, executors that run nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from headway.core.device import Device
from headway.core.engine import Engine
from headway.core.messages import Reply
from headway.core.protocols import Executor, Policy, Source
from headway.core.request import Request
from headway.cost.contention import MaxMinFair
from headway.live.clock import LiveClock, VirtualClock
from headway.live.driver import LiveDriver
from headway.live.executors.null import VirtualExecutor
from headway.live.report import LiveReport
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.testing import Listed, Rows, ToyTable, toy_device, toy_request

BLOCKS = {"short": (1e-3,), "long": (2e-3, 2e-3, 2e-3, 2e-3)}


class World:
    """A device, tables, and what was logged and replied in the run made last."""

    def __init__(self, cores: int = 1, blocks: Mapping[str, Sequence[float]] = BLOCKS) -> None:
        self.device: Device = toy_device(cores)
        self.blocks = blocks
        self.tables = {
            model: ToyTable(self.device, [(seconds, 0.0) for seconds in times])
            for model, times in blocks.items()
        }
        self.rows = Rows()
        self.replies: list[Reply] = []

    def request(
        self, id: int, model: str = "short", *, at: float = 0.0, within: float = 1.0, tenant: str = "t"
    ) -> Request:
        """A request that arrives at a time and should be done within a time."""
        return toy_request(id, model, self.tables, arrival_s=at, deadline_s=at + within, tenant=tenant)

    def engine(self, policy: str | Policy, *, forgiving: bool = True) -> Engine:
        """An engine over this device and these tables."""
        rule = MaxMinFair(self.device.dram_bandwidth_bytes_s)
        chosen = make(policy) if isinstance(policy, str) else policy
        estimator = AnalyticEstimator(self.device, self.tables, rule)
        return Engine(self.device, chosen, estimator, rule, self.rows, forgiving=forgiving)

    def driver(
        self,
        policy: str | Policy,
        requests: Iterable[Request] | Source,
        executor: Executor,
        clock: LiveClock,
        *,
        queue_limit: int = 1000,
        on_reply: Callable[[Reply], None] | None = None,
    ) -> LiveDriver:
        """A driver that collects replies."""

        def collect(reply: Reply) -> None:
            self.replies.append(reply)
            if on_reply is not None:
                on_reply(reply)

        source = Listed(requests) if isinstance(requests, Iterable) else requests
        return LiveDriver(
            self.engine(policy), source, executor, clock, queue_limit=queue_limit, on_reply=collect
        )

    def play(
        self,
        policy: str | Policy,
        requests: Iterable[Request] | Source,
        *,
        fails: Iterable[tuple[int, int]] = (),
        queue_limit: int = 1000,
    ) -> LiveReport:
        """Run to the end in virtual time."""
        clock = VirtualClock()
        executor = VirtualExecutor(self.blocks, clock, fails=frozenset(fails))
        return self.driver(policy, requests, executor, clock, queue_limit=queue_limit).run()

    @property
    def outcomes(self) -> dict[int, str]:
        """How each request ended, by id."""
        return {reply.request.id: reply.outcome.value for reply in self.replies}

    @property
    def reasons(self) -> dict[int, str]:
        """Why each request ended so, by id."""
        return {reply.request.id: reply.reason for reply in self.replies}


@pytest.fixture
def make_world() -> type[World]:
    """For other numbers of cores, and other models; tests cannot import their neighbours."""
    return World


@pytest.fixture
def world() -> World:
    """One core, a short model of one block and a long one of four."""
    return World()
