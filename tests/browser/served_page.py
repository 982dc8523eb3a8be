"""The dashboard over a live engine whose blocks only take time, and over one that says what a test wants."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "serve"))  # for served_world

from served_world import NOW, ToyInstaller

from headway.config.serving import Serving
from headway.core.engine import Engine
from headway.core.request import Request
from headway.cost.contention import OverlapLoss
from headway.live.executors.null import NullExecutor
from headway.live.service import LiveService
from headway.policies import make
from headway.predict.analytic import AnalyticEstimator
from headway.serve.admission import Admission
from headway.serve.dashboard.routes import routes_of
from headway.serve.dashboard.snapshot import Shown
from headway.serve.dashboard.stream import Snapshots
from headway.serve.dashboard.timeline import Timeline
from headway.serve.engine_service import EngineService
from headway.serve.event_log import NoLog
from headway.serve.figures import Figures
from headway.serve.frontends import Frontends, serve_frontends
from headway.serve.lifecycle import Models
from headway.serve.refusal import Refusal
from headway.serve.repository import ModelSource
from headway.serve.service import InferenceRequest
from headway.serve.tenants import Tenants

LANES = 2


class _Installer(ToyInstaller):
    """Models named as the wiring names them, one name for each."""

    def install(self, source: ModelSource) -> Any:
        loaded = super().install(source)
        table = self.tables.pop(loaded.key)
        loaded.key = f"{source.name}/{source.version}@{len(self.installed):04x}"
        self.tables[loaded.key] = table
        return loaded


class _Seconds(Mapping[str, Sequence[float]]):
    """Blocks' times by the engine's names: somewhat other ones than believed."""

    def __init__(self, seconds: Mapping[str, Sequence[float]], slower: float) -> None:
        self._seconds, self._slower = seconds, slower

    def __getitem__(self, key: str) -> Sequence[float]:
        return [self._slower * each for each in self._seconds[key.partition("/")[0]]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)


class _Executor(NullExecutor):
    result: Any

    def _end(self, run: Any) -> None:
        self.result(run.request, {"y": np.zeros(2, np.float32)})


class LivePage:
    """A service on two lanes with real threads, and its dashboard on a control port."""

    def __init__(
        self,
        tenants: Sequence[Mapping[str, Any]],
        seconds: Mapping[str, Sequence[float]],
        *,
        slower: float = 1.0,
        **more: Any,
    ) -> None:
        models = [{"name": name, "model": "kws_res8"} for name in seconds]
        self.serving = Serving.from_mapping(
            {"name": "shop", "hardware": "cpu-lanes", "models": models, "tenants": list(tenants), **more}
        )
        self.installer = _Installer(seconds, LANES)
        device, tables, rule = self.installer.device, self.installer.tables, OverlapLoss(0.0)
        self.models = Models(self.installer, None)

        def least_s(request: Request) -> float:
            left_s: float = tables[request.model].remaining_s[request.next_block]
            return left_s

        admission = Admission(make("edf"), least_s, 1.0)
        self.service = EngineService(self.models, Tenants(self.serving, 0.0), admission)
        timeline = Timeline(NoLog())
        self.figures = Figures(LANES, lambda: self.live.now(), timeline)
        self.service.watch(self.figures.answered)
        engine = Engine(
            device, admission, AnalyticEstimator(device, tables, rule), rule, self.figures, forgiving=True
        )
        self._executor = _Executor(_Seconds(seconds, slower), [[lane] for lane in range(LANES)])
        self._executor.result = self.service.on_result
        self.live = LiveService(
            engine, self._executor, on_reply=self.service.on_reply, on_broken=self.service.on_broken
        )
        self.service.attach(self.live)
        self.live.start()
        for model in self.serving.models:
            self.models.keep(ModelSource(model.name, "1", None))
            self.models.load(model.name).result()
        self.service.be_ready()
        self.snapshots = Snapshots(
            Shown(
                "shop",
                "edf",
                tuple(core.name for core in device.cores),
                self.service,
                self.figures,
                timeline,
                self.live.now,
                lambda key: 1 + len(key) % 3,
                lambda: 0,
            ),
            every_s=0.2,
        )
        self.front = self.listen(0)

    def listen(self, port: int) -> Frontends:
        """Answer on a control port."""
        self.front = serve_frontends(
            self.service, control=("127.0.0.1", port), control_routes=routes_of(self.snapshots)
        )
        return self.front

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://127.0.0.1:{self.front.control_port}/ui"

    def infer(self, model: str, key: str | None = None, timeout_s: float | None = None) -> None:
        """Ask for an inference and wait for nothing; refusals are answers, too."""
        inputs = {"x": np.zeros(2, np.float32)}
        request = InferenceRequest(model, "", inputs, (), "", key, NOW, timeout_s)
        with suppress(Refusal):
            self.service.submit(request, lambda answer: None)

    def close(self) -> None:
        """End everything."""
        self.front.close()
        self.service.drain(2.0)
        self.live.stop(1.0)
        self.models.close()
        self._executor.close()
        self.service.close()


@contextmanager
def load_on(page: LivePage, rate: Mapping[tuple[str, str], float], seed: int = 1) -> Iterator[None]:
    """Requests of (tenant, model) at random times meanwhile, so many a second."""
    ending = threading.Event()
    draw = random.Random(seed)

    def work() -> None:
        pairs, rates = list(rate), list(rate.values())
        next_s = time.monotonic()
        while not ending.is_set():
            next_s += draw.expovariate(sum(rates))
            if ending.wait(max(0.0, next_s - time.monotonic())):
                return
            ((tenant, model),) = draw.choices(pairs, rates)
            page.infer(model, tenant)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def shown_of(service: Any, figures: Any = None, **fields: Any) -> Shown:
    """A dashboard's source in which nothing happens unless a test says so."""
    quiet = Figures(1, lambda: 5.0)
    given: dict[str, Any] = {
        "name": "quiet",
        "policy": "edf",
        "lanes": ("lane0",),
        "service": service,
        "figures": figures or quiet,
        "timeline": Timeline(NoLog()),
        "now": lambda: 5.0,
        "tier": lambda key: None,
        "faults": lambda: 0,
    }
    return Shown(**given | fields)


def service_of(doors: Sequence[Any], index: Sequence[Any], **fields: Any) -> Any:
    """What the dashboard asks of a service, said by a test."""

    def find(name: str, version: str) -> Any:
        return SimpleNamespace(key=f"{name}/{version}@0", users=0, blocks=1, isolated_s=0.01)

    given: dict[str, Any] = {
        "live": lambda: True,
        "ready": lambda: True,
        "tenants": SimpleNamespace(doors=doors, require_control=lambda key: None),
        "models": SimpleNamespace(index=lambda only_ready: list(index), find=find, own=()),
    }
    return SimpleNamespace(**given | fields)
