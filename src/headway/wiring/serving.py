"""A server's engine: lanes, policy, admission, models and tenants, put together and kept running."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from time import perf_counter

from headway.config.serving import Serving
from headway.core.checks import require_able
from headway.core.decision_time import DecisionTimes
from headway.core.engine import Engine
from headway.core.errors import HeadwayError
from headway.core.protocols import Capability
from headway.cost.contention import OverlapLoss
from headway.live.executors.makers import OnnxRuntimeLanes
from headway.live.executors.onnxruntime import OnnxRuntimeExecutor
from headway.live.executors.process import ProcessExecutor
from headway.live.service import LiveService
from headway.policies import make
from headway.predict.overlap import ConstantOverlap, shipped
from headway.serve.admission import Admission
from headway.serve.dashboard.snapshot import Shown
from headway.serve.dashboard.timeline import Timeline
from headway.serve.engine_service import EngineService
from headway.serve.event_log import RetainedLog
from headway.serve.figures import Figures
from headway.serve.intake import IntakeProcess
from headway.serve.lifecycle import Models
from headway.serve.polling import Poller
from headway.serve.refusal import Refusal
from headway.serve.repository import Repository
from headway.serve.settings import Settings
from headway.serve.telemetry import Belief, Telemetry
from headway.serve.tenants import Tenants
from headway.serve.visits import Visits
from headway.wiring.installation import Installation, ModelExecutor
from headway.wiring.lanes import limits_of, overheads_on, processors_of, widths_of
from headway.wiring.request_logs import access_log_of, tracer_of
from headway.wiring.serving_parts import belief_of, event_log_of, source_of

Say = Callable[[str], None]
"""Takes a few words for whoever runs the server."""


class Server:
    """A server without its front ends: `service` is what they ask.

    Its engine runs once it is made; `load` loads the models of the configuration. Raises HeadwayError for an
    unknown policy, one that lanes refuse, and lanes that this machine does not have. `on_broken` is called if
    the engine ends by a defect; the server then has to be started anew.
    """

    def __init__(self, serving: Serving, say: Say, on_broken: Callable[[], None] = lambda: None) -> None:
        self.serving = serving
        self._say, self._tell_broken = say, on_broken
        hardware = serving.lanes
        device = hardware.device()
        policy = make(serving.policy)
        require_able(device, policy)
        lanes = processors_of(device)
        say("measuring dispatch, switch and overlap")
        overheads = overheads_on(lanes, fresh=False)
        wide = Capability.SPLIT in policy.needs and len(device.cores) > 1
        sets = (*((core,) for core in device.cores), *((device.cores,) if wide else ()))
        self._intake = IntakeProcess(widths_of(lanes), lanes[1] if len(lanes) > 1 else ())
        limits = limits_of(device) if hardware.overlap == "predicted" else None
        self._installation = Installation(device, overheads, self._intake, sets, limits)
        measured_w = overheads.overlap_w if hardware.overlap_w is None else hardware.overlap_w
        self._admission = Admission(
            policy,
            self._installation.least_s,
            OverlapLoss(measured_w).rates([0.0] * len(device.cores))[0],
            checking=serving.admission == "predicted",
        )
        path = serving.repository_path
        self._repository = None if path is None else Repository(path)
        self.models = Models(self._installation, self._repository)
        self.service = EngineService(self.models, Tenants(serving, 0.0), self._admission)
        if serving.repository is not None:
            self.service.overrides_accepted = serving.repository.overrides
            self.service.upload_bytes = serving.upload_bytes
        self._installation.service, self._installation.admission = self.service, self._admission
        self._log = event_log_of(serving, device)
        overlap = shipped() if hardware.overlap == "predicted" else ConstantOverlap(measured_w)
        estimator = belief_of(serving, policy, device, self._installation.tables, overlap)
        self._calibration = estimator.calibration
        self.settings = Settings()
        self._tracer = tracer_of(serving, self.settings, lambda: self.live.now(), self._log)
        self._access_log = access_log_of(serving)
        self.visits = Visits(self._access_log, self._tracer)
        self._timeline = Timeline(self._tracer or self._log)
        self.figures = Figures(len(device.cores), lambda: self.live.now(), self._timeline)
        self.service.watch(self.figures.answered)
        decision_times = DecisionTimes(perf_counter)
        self.engine = Engine(
            device,
            self._admission,
            estimator,
            estimator.contention,
            self.figures,
            forgiving=True,
            decision_times=decision_times,
        )
        self._executor = self._made_executor(lanes, isolated=hardware.isolation == "process")
        self._installation.executor = self._executor
        self.live = LiveService(
            self.engine, self._executor, on_reply=self.service.on_reply, on_broken=self._on_broken
        )
        self.service.attach(self.live)
        self.telemetry = Telemetry(
            serving.name,
            serving.policy,
            self.service,
            self.figures,
            self.engine,
            decision_times,
            Belief(self._tier, self._alone),
        )
        self.live.start()
        self._poller: Poller | None = None

    def shown(self) -> Shown:
        """What the page at /ui shows."""
        serving = self.serving
        lanes = tuple(core.name for core in self.engine.device.cores)
        return Shown(
            serving.name,
            serving.policy,
            lanes,
            self.service,
            self.figures,
            self._timeline,
            self.live.now,
            self._tier,
            lambda: self.engine.faults.count,
        )

    def _tier(self, key: str) -> int | None:
        try:
            return int(self._calibration.tiers.of(key))
        except KeyError:  # its costs went meanwhile
            return None

    def _alone(self, key: str) -> float | None:
        return self._calibration.solo(key).mean if key in self._installation.tables else None

    def load(self) -> list[str]:
        """Load all models of the configuration and of the repository, then be ready.

        Returns why models of the repository are not served. Raises HeadwayError for one of the configuration
        that cannot be.
        """
        serving, failures = self.serving, []
        for position, model in enumerate(serving.models):
            self.models.keep(source_of(serving, position))
            self._say(f"loading {model.name}")
            try:
                self.models.load(model.name).result()
            except Refusal as refusal:
                raise HeadwayError(f"{serving.where('models', position)}: {refusal.message}") from None
        for name, future in self._begin_repository():
            self._say(f"loading {name}")
            try:
                future.result()
            except Refusal as refusal:
                failures.append(refusal.message)
        self.service.be_ready()
        self._intake.serving = True
        return failures

    def reload(self, serving: Serving) -> None:
        """Take another configuration, without regard to requests that are under way.

        First models are loaded that are new or other, then tenants change, then models that are gone drain.

        Raises HeadwayError, and changes nothing, if it needs other lanes, another policy or repository; for a
        model that cannot be loaded, with all else as it was.
        """
        before = self.serving
        for field in ("hardware", "policy", "repository", "log", "access_log", "tracing", "listen"):
            if getattr(before, field) != getattr(serving, field):
                raise HeadwayError(f"{serving.where(field)}: changed; accepted: a restart for that")
        old = {model.name: source_of(before, at) for at, model in enumerate(before.models)}
        new = {model.name: source_of(serving, at) for at, model in enumerate(serving.models)}
        for position, name in enumerate(new):
            if old.get(name) == new[name]:
                continue
            self.models.keep(new[name])
            try:
                self.models.load(name).result()
            except Refusal as refusal:
                if name in old:
                    self.models.keep(old[name])
                else:
                    self.models.forget(name)
                raise HeadwayError(f"{serving.where('models', position)}: {refusal.message}") from None
        self.serving = serving
        self.service.change_tenants(serving)
        self._admission.checking = serving.admission == "predicted"
        for name in [name for name in old if name not in new]:
            self.models.forget(name)
            self.models.unload(name).result()

    def close(self, limit_s: float) -> bool:
        """Take nothing further, answer what is there, and give everything back.

        Returns whether all was answered within the limit.
        """
        in_time = self.service.drain(limit_s)
        if self._poller is not None:
            self._poller.close()
        self._intake.close()
        self.live.stop(1.0)
        self.models.close()
        self._executor.close()
        self.service.close()
        if isinstance(self._log, RetainedLog):
            self._log.close()
        if self._access_log is not None:
            self._access_log.close()
        if self._tracer is not None:
            self._tracer.close()
        return in_time

    def _begin_repository(self) -> list[tuple[str, Future[None]]]:
        settings, repository = self.serving.repository, self._repository
        if settings is None or repository is None:
            return []
        if settings.mode == "poll":
            self._poller = Poller(self.models, repository, settings.poll_every, self._say)
            return list(zip(repository.names(), self._poller.start(), strict=False))
        names = repository.names() if settings.load == "all" else settings.load
        return [(name, self.models.load(name)) for name in names if settings.load != "none"]

    def _made_executor(self, lanes: tuple[tuple[int, ...], ...], *, isolated: bool) -> ModelExecutor:
        service = self.service
        if isolated:
            make_lanes = OnnxRuntimeLanes({}, lanes)
            return ProcessExecutor(make_lanes, inputs=service.inputs_of, on_result=service.on_result)
        return OnnxRuntimeExecutor({}, lanes, service.inputs_of, on_result=service.on_result)

    def _on_broken(self, error: BaseException) -> None:
        print("the engine has ended by a defect:", file=sys.stderr)
        traceback.print_exception(error, file=sys.stderr)  # for whoever runs the server, never for clients
        self.service.on_broken(error)
        self._tell_broken()
