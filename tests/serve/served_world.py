"""A server's engine in virtual time, with models that only take time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from headway.config.serving import Serving
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.request import Request
from headway.cost.contention import OverlapLoss
from headway.live.clock import VirtualClock
from headway.live.executors.null import VirtualExecutor
from headway.live.service import LiveService
from headway.models.value_types import ValueKind, ValueType
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.serve.admission import Admission
from headway.serve.engine_service import EngineService
from headway.serve.lifecycle import Models
from headway.serve.loaded import Loaded
from headway.serve.refusal import Refusal
from headway.serve.repository import ModelSource, Repository
from headway.serve.service import InferenceRequest, InferenceResult, Ticket
from headway.serve.tenants import Tenants
from headway.testing import Rows, toy_lane_table, toy_lanes

NOW = math.inf
"""An arrival time that is never before the present one: a request then has lost no time on its way."""

X = ValueType("tensor(float)", ValueKind.TENSOR, "float32", (2,), (2,))
SPLIT = SimpleNamespace(inputs={"x": X}, outputs=("y",), types={"x": X, "y": X})


class ToyInstaller:
    """Models of blocks that take time; `broken` holds reasons why some cannot be loaded.

    `before` is called with each source before it is installed.
    """

    def __init__(self, seconds: Mapping[str, Sequence[float]], lanes: int = 1) -> None:
        self.seconds, self.device = seconds, toy_lanes(lanes)
        self.tables: dict[str, Any] = {}
        self.broken: dict[str, str] = {}
        self.removed: list[str] = []
        self.installed: list[ModelSource] = []
        self.before: Callable[[ModelSource], object] = lambda source: None

    def install(self, source: ModelSource) -> Loaded:
        self.before(source)
        self.installed.append(source)
        if source.name in self.broken:
            raise HeadwayError(self.broken[source.name])
        table = toy_lane_table(self.device, {1: self.seconds[source.name]})
        key = f"{source.name}/{source.version}#{len(self.installed)}"
        self.tables[key] = table
        return Loaded(
            name=source.name,
            version=source.version,
            key=key,
            split=SPLIT,  # type: ignore[arg-type]
            blocks=table.blocks,
            isolated_s=table.isolated_s,
            inputs=(),
            outputs=(),
            labels=dict(source.labels),
        )

    def remove(self, loaded: Loaded) -> None:
        assert not loaded.users
        self.removed.append(loaded.key)
        del self.tables[loaded.key]


class _Timers:
    def __init__(self, clock: VirtualClock, call: Callable[[int], None]) -> None:
        self._clock, self._call = clock, call

    def set(self, at_s: float, id: int) -> None:
        self._clock.call_at(at_s, lambda: self._call(id))

    def close(self) -> None:
        pass


class _Live(LiveService):
    def timers(self, call: Callable[[int], None]) -> Any:
        return _Timers(self._clock, call)


class _BlockTimes(Mapping[str, Sequence[float]]):
    """The executor's times by the engine's names of models."""

    def __init__(self, seconds: Mapping[str, Sequence[float]]) -> None:
        self._seconds = seconds

    def __getitem__(self, key: str) -> Sequence[float]:
        return self._seconds[key.partition("/")[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)


class _Executor(VirtualExecutor):
    """Has every request's result from its beginning: in virtual time nothing is computed."""

    result: Callable[[Request, Mapping[str, Any]], None]

    def start(self, run: Any) -> None:
        self.result(run.request, {"y": np.zeros(2, np.float32)})
        super().start(run)


class ServedWorld:
    """A service over lanes in virtual time. Ask for things with `at` and `infer`, then `play`.

    `answers` are (time, name, answer) in the order in which they came.
    """

    def __init__(
        self,
        tenants: Sequence[Mapping[str, Any]],
        seconds: Mapping[str, Sequence[float]] | None = None,
        *,
        lanes: int = 1,
        policy: str = "edf",
        fails: Sequence[tuple[int, int]] = (),
        admission: str = "predicted",
        repository: Repository | None = None,
        believed: Mapping[str, Sequence[float]] | None = None,
        **more: Any,
    ) -> None:
        self.seconds = seconds or {"short": (1e-3,), "long": (2e-3,) * 4}
        self.serving = Serving.from_mapping(
            {
                "hardware": "cpu-lanes",
                "models": [{"name": name, "model": "kws_res8"} for name in self.seconds],
                "tenants": list(tenants),
                "admission": admission,
                **more,
            }
        )
        self.clock = VirtualClock()
        self.installer = ToyInstaller(believed or self.seconds, lanes)
        self.models = Models(self.installer, repository)
        rule = OverlapLoss(0.0)
        tables = self.installer.tables

        def least_s(request: Request) -> float:
            left_s: float = tables[request.model].remaining_s[request.next_block]
            return left_s

        checking = admission == "predicted"
        self.admission = Admission(make(policy), least_s, 1.0, checking=checking)
        self.service = EngineService(self.models, Tenants(self.serving, 0.0), self.admission)
        self.rows = Rows()
        device = self.installer.device
        estimator = AnalyticEstimator(device, tables, rule)
        engine = Engine(device, self.admission, estimator, rule, self.rows, forgiving=True)
        self.executor = _Executor(_BlockTimes(self.seconds), self.clock, fails=frozenset(fails))
        self.executor.result = self.service.on_result
        self.live = _Live(
            engine,
            self.executor,
            on_reply=self.service.on_reply,
            on_broken=self.service.on_broken,
            clock=self.clock,
        )
        self.service.attach(self.live)
        for model in self.serving.models:
            self.models.keep(ModelSource(model.name, "1", None))
            self.models.load(model.name).result()
        self.service.be_ready()
        self.answers: list[tuple[float, str, InferenceResult | Refusal]] = []
        self.tickets: dict[str, Ticket] = {}

    def at(self, at_s: float, call: Callable[[], object]) -> None:
        """Do something at a time."""

        def do() -> None:
            call()

        self.clock.call_at(at_s, do)

    def infer(self, at_s: float, name: str, model: str = "short", **fields: Any) -> None:
        """Ask for an inference at a time; refusals at once are answers, too."""
        given = {"model": model, "version": "", "outputs": (), "id": name, "key": None, "arrived_s": NOW}
        given["inputs"] = {"x": np.zeros(2, np.float32)}
        given |= fields

        def ask() -> None:
            try:
                self.tickets[name] = self.service.submit(
                    InferenceRequest(**given),
                    lambda answer: self.answers.append((self.clock.now(), name, answer)),
                )
            except Refusal as refusal:
                self.answers.append((self.clock.now(), name, refusal))

        self.clock.call_at(at_s, ask)

    def play(self, until_s: float = 10.0) -> None:
        """Run until then and answer what is there."""
        self.clock.call_at(until_s, self.live.finish)
        self.live.run()
        self.models.close()
        if self.service.broken is not None:
            raise self.service.broken

    def told(self, name: str) -> tuple[float, str]:
        """When somebody was answered, and how: "done" or the refusal's cause."""
        ((at_s, answer),) = [(at_s, answer) for at_s, who, answer in self.answers if who == name]
        return at_s, answer.cause.name if isinstance(answer, Refusal) else "done"

    def how(self, *names: str) -> list[str]:
        """How some were answered."""
        return [self.told(name)[1] for name in names]

    def refusal(self, name: str) -> Refusal:
        """The refusal that somebody got."""
        (answer,) = [answer for _, who, answer in self.answers if who == name]
        assert isinstance(answer, Refusal)
        return answer
