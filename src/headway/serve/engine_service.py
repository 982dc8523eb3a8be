"""The live engine as the front ends see it: models, tenants, and inferences under way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from headway.config.serving import Serving
from headway.core.messages import Reply
from headway.core.request import Request
from headway.live.service import LiveService, Timers
from headway.serve.admission import Admission
from headway.serve.answer_counts import AnswerCounts
from headway.serve.answers import Inference, answer_to, broken, stopping
from headway.serve.joint import Joint, rows_of
from headway.serve.lifecycle import Models
from headway.serve.loaded import Loaded
from headway.serve.model_desk import ModelDesk
from headway.serve.refusal import Cause, Refusal
from headway.serve.requests import asked_request, warm_up_request
from headway.serve.service import (
    Done,
    InferenceRequest,
    InferenceResult,
    Ticket,
)
from headway.serve.tenants import Tenants
from headway.serve.visits import Visit


class InferenceTicket:
    """Implements `headway.serve.service.Ticket`."""

    __slots__ = ("_id", "_service")

    def __init__(self, service: EngineService, id: int) -> None:
        self._service, self._id = service, id

    def cancel(self) -> None:
        """The client has gone."""
        self._service.give_up(self._id, Refusal(Cause.CANCELLED, "withdrawn by the client"))


class EngineService(ModelDesk):
    """Implements `headway.serve.service.InferenceService` over a live engine.

    Args:
        models: what is loaded.
        tenants: who may come.
        admission: the policy that the engine asks.

    `attach` gives it the engine; `inputs_of`, `on_result`, `on_reply` and `on_broken` are for that.
    """

    def __init__(self, models: Models, tenants: Tenants, admission: Admission) -> None:
        super().__init__(models, tenants, self._require_open)
        self._admission = admission
        self._live: LiveService | None = None
        self._under_way: dict[int, Inference] = {}
        self._ids = itertools.count()
        self._timers: Timers | None = None
        self._ready = self._draining = False
        self._counts = AnswerCounts(models)
        self.watch = self._counts.watch
        self._idle = threading.Condition()
        self.broken: BaseException | None = None

    def attach(self, live: LiveService) -> None:
        """Serve with this engine; `time_out` is called for those whose own time is over."""
        self._live = live
        self._timers = live.timers(self.time_out)

    @property
    def _engine(self) -> LiveService:
        assert self._live is not None, "the service is attached to an engine before it is used"
        return self._live

    # --- inference ---------------------------------------------------------------------------------

    def submit(self, request: InferenceRequest, done: Done) -> Ticket:
        """Begin an inference. Raises Refusal if it is refused at once; `done` is not called then.

        One that brings several rows for a model that batches is an inference for each of them.
        """
        if any(array.ndim and array.shape[0] != 1 for array in request.inputs.values()):
            loaded = self._batching(request)
            if loaded is not None:
                rows = rows_of(request.inputs, loaded.most_batch, loaded.name)
                joint = Joint(rows, loaded.split.outputs, done)
                joint.submit(request, self._submit)
                return joint
        return self._submit(request, done)

    def _batching(self, request: InferenceRequest) -> Loaded | None:
        """The model of a request if it batches, and its tenant may use it."""
        try:
            if not self.tenants.of(request.key).settings.may_use(request.model):
                return None
            loaded = self.models.find(request.model, request.version)
        except Refusal:
            return None  # the first of its rows is refused for that
        return None if loaded.batching is None else loaded

    def _submit(self, request: InferenceRequest, done: Done) -> Ticket:
        began_s = perf_counter()
        door = self.tenants.of(request.key)
        settings = door.settings
        if request.visit is not None:
            request.visit.tenant = settings.name
        if not settings.may_use(request.model):
            raise Refusal(Cause.FORBIDDEN, f"tenant {settings.name!r} may not use model {request.model!r}")
        self._require_open()
        loaded = self.models.acquire(request.model, request.version)
        try:
            wanted = loaded.wanted(request.outputs)
            inputs = loaded.checked(request.inputs)
            live = self._engine
            now = live.now()
            arrival_s = now - max(0.0, began_s - request.arrived_s)
            asked = asked_request(
                next(self._ids), settings, loaded, arrival_s, request.timeout_s, request.priority
            )
            if asked.deadline_s <= now and request.timeout_s is not None:
                raise Refusal(Cause.LATE, "its time had passed when it arrived")
            size = max(request.body_bytes, sum(array.nbytes for array in inputs.values()))
            door.enter(size, now)
        except Refusal as refusal:
            self.models.release(loaded)
            self._counts.refused_at_once(settings.name, loaded, refusal)
            raise
        except BaseException:
            self.models.release(loaded)
            raise
        inference = Inference(asked, loaded, inputs, wanted, [done], door, size)
        inference.input_s = perf_counter() - began_s
        self._under_way[asked.id] = inference
        if request.timeout_s is not None:
            assert self._timers is not None
            self._timers.set(arrival_s + request.timeout_s, asked.id)
        if request.visit is not None:
            request.visit.taken(asked)
        live.submit(asked)
        if self.broken is not None:  # it ended meanwhile, and may not have seen this one
            self._answer(inference, broken())
        return InferenceTicket(self, asked.id)

    def refused(self, model: str, version: str, key: str | None, refusal: Refusal, visit: Visit) -> None:
        """Have a request counted that did not come so far as to be submitted, if it is known whose it was."""
        try:
            tenant = self.tenants.of(key).settings
            visit.tenant = tenant.name
            loaded = self.models.find(model, version)
        except Refusal:
            return
        if tenant.may_use(model):
            self._counts.refused_at_once(tenant.name, loaded, refusal)

    def warm_up(self, loaded: Loaded, inputs: Mapping[str, Any], done: Done) -> None:
        """Run a model once, behind all other work; nobody else knows of it yet."""
        now = self._engine.now()
        asked = warm_up_request(next(self._ids), loaded, now)
        inference = Inference(asked, loaded, inputs, loaded.split.outputs, [done])
        self.models.hold(loaded)
        self._under_way[asked.id] = inference
        self._engine.submit(asked)

    def give_up(self, id: int, refusal: Refusal) -> None:
        """Answer a request with a refusal unless it has its answer; its work ends at the next block."""
        inference = self._under_way.get(id)
        if inference is not None and self._answer(inference, refusal):
            self._engine.cancel(id)

    def _require_open(self) -> None:
        if self.broken is not None:
            raise broken()
        if self._draining:
            raise stopping()

    def time_out(self, id: int) -> None:
        """The time that a request brought is over."""
        self.give_up(id, Refusal(Cause.LATE, "its time was over before its result was there"))

    # --- for the engine ----------------------------------------------------------------------------

    def inputs_of(self, request: Request) -> Mapping[str, Any]:
        """The tensors of a request."""
        return self._under_way[request.id].inputs

    def on_result(self, request: Request, results: Mapping[str, Any]) -> None:
        """A request's last block has run; its reply follows."""
        inference = self._under_way.get(request.id)
        if inference is not None:
            inference.made = results

    def on_reply(self, reply: Reply) -> None:
        """A request is over."""
        finish_s = self._admission.finish_s.pop(reply.request.id, None)
        inference = self._under_way.pop(reply.request.id, None)
        if inference is not None:
            self._answer(inference, answer_to(inference, reply, self._engine.now(), finish_s))
            self.models.release(inference.loaded)
            with self._idle:
                if not self._under_way:
                    self._idle.notify_all()

    def on_broken(self, error: BaseException) -> None:
        """The engine has ended by a defect."""
        self.broken = error
        for inference in list(self._under_way.values()):
            self._answer(inference, broken())

    def _answer(self, inference: Inference, answer: InferenceResult | Refusal) -> bool:
        """Tell whoever waits; False if that was done already."""
        try:
            done = inference.pending.pop()
        except IndexError:
            return False
        if inference.door is not None:
            self._counts.answered(inference, answer, self._engine.now())
            inference.door.leave(inference.size)
        done(answer)
        return True

    # --- what front ends ask -----------------------------------------------------------------------

    def under_way(self) -> Sequence[Inference]:
        """All inferences that have no answer yet; what models run to be warm is among them."""
        return tuple(self._under_way.copy().values())

    def live(self) -> bool:
        """Whether the process works at all."""
        return self.broken is None and self._engine.alive

    def ready(self) -> bool:
        """Whether requests are taken: all models are warm, and nothing is draining."""
        return self._ready and not self._draining and self.live()

    def model_ready(self, model: str, version: str = "") -> bool:
        """Whether that version (empty: the newest) is. Raises Refusal for an unknown model."""
        return self.models.is_ready(model, version) and self.live() and not self._draining

    # --- life --------------------------------------------------------------------------------------

    def be_ready(self) -> None:
        """All models are warm."""
        self._ready = True

    def change_tenants(self, serving: Serving) -> None:
        """Take another configuration's tenants; requests under way keep what they were promised."""
        self.tenants.change(serving, self._engine.now())

    def drain(self, limit_s: float) -> bool:
        """Take no further requests, and answer those that are there, for so long at most.

        What is not answered then is given up. Returns whether all was answered in time.
        """
        self._draining = True
        with self._idle:
            in_time = self._idle.wait_for(lambda: not self._under_way or not self._engine.alive, limit_s)
        for id in list(self._under_way):
            self.give_up(id, stopping())
        return in_time

    def close(self) -> None:
        """End the timers; the engine is its owner's."""
        if self._timers is not None:
            self._timers.close()
