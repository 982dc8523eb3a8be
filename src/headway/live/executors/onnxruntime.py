"""Models for real: blocks run by ONNX Runtime on the lanes of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.request import Request
from headway.core.run import Run
from headway.live.executors.lanes import Active, LaneExecutor
from headway.live.thread_ranks import give_way

if TYPE_CHECKING:
    from headway.models.block_sessions import BlockSessions
    from headway.models.boundary_buffers import Buffers
    from headway.models.chain import SplitModel

TIMEOUT_S: Final = 10.0
"""Thousands of times what a block should take, so that only a model that hangs or loops gets there."""

InputSource = Callable[[Request], Mapping[str, Any]]
"""The input tensors of a request, by name. Arrays are bound, not copied, until the request is over."""

OnResult = Callable[[Request, Mapping[str, Any]], None]
"""Takes the outputs of a request, by name, on the thread of the lane that finished it."""


class ReplayInputs:
    """The same inputs for every request of a model; they can be sent to another process."""

    def __init__(self, inputs: Mapping[str, Mapping[str, Any]]) -> None:
        self._inputs = {model: dict(arrays) for model, arrays in inputs.items()}

    def __call__(self, request: Request) -> Mapping[str, Any]:
        """The inputs of the request's model."""
        return self._inputs[request.model]


class _Held:
    """Buffers, and the requests whose tensors lie there, each at its place."""

    __slots__ = ("buffers", "given_back", "split", "users")

    def __init__(self, split: SplitModel, buffers: Buffers, users: Sequence[int]) -> None:
        self.split = split  # of as many requests as the buffers are for
        self.buffers = buffers
        self.users = set(users)
        self.given_back = False


class _Job(NamedTuple):
    sessions: BlockSessions
    held: _Held
    requests: tuple[Request, ...]


class OnnxRuntimeExecutor(LaneExecutor):
    """Runs the blocks of split models; outputs equal those of `SplitModel.run`.

    One session per block serves all lanes of one thread, since the caller's thread does the work there; lanes
    of more threads, and sets of lanes, have sessions of their own, whose threads stay on their processors.
    Sessions are opened by `prepare`, or by the first run that needs them.

    Args:
        models: split models by the name under which the engine knows them.
        lanes: for each core, by index, the numbers of its processors.
        inputs: of each request.
        on_result: takes the outputs; without it they are made and thrown away.
        timeout_s: a block that takes longer is terminated between two of its operators, and its request
            failed; None waits for ever.
        pin: as for LaneExecutor.
    """

    def __init__(
        self,
        models: Mapping[str, SplitModel],
        lanes: Sequence[Sequence[int]],
        inputs: InputSource,
        *,
        on_result: OnResult | None = None,
        timeout_s: float | None = TIMEOUT_S,
        pin: bool = True,
    ) -> None:
        super().__init__(lanes, timeout_s=timeout_s, pin=pin)
        self._models = dict(models)
        self._inputs = inputs
        self._on_result = on_result
        self._sessions: dict[tuple[str, tuple[int, ...]], BlockSessions] = {}
        self._opening = threading.Lock()
        self._held: dict[int, tuple[_Held, int]] = {}
        self._giving_back = threading.Lock()
        self._jobs: dict[int, _Job] = {}  # by the lane that leads the run

    @property
    def held(self) -> int:
        """How many requests have begun and are not over."""
        return len(self._held)

    @property
    def private_bytes(self) -> int | None:
        """Memory that all sessions took for themselves; None where the system does not tell."""
        parts = [sessions.private_bytes for sessions in self._sessions.values()]
        return None if None in parts else sum(part for part in parts if part is not None)

    def end_profiling(self) -> tuple[Path, ...]:
        """As of `BlockSessions`, for all sessions that are open."""
        return tuple(path for sessions in self._sessions.values() for path in sessions.end_profiling())

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Open the sessions for these lanes together, which serve batches of any size.

        Raises:
            HeadwayError: an unknown model, a batch for one that was not prepared for any, or a model that
                ONNX Runtime refuses.
        """
        if model not in self._models:
            raise HeadwayError(f"no model {model!r}; accepted: {', '.join(self._models)}")
        self._models[model].of_batch(batch)
        self._sessions_for(model, cores)

    def admit(self, model: str, split: SplitModel) -> None:
        """Take one more model, under a name that no other has; `prepare` it next."""
        self._models[model] = split

    def retire(self, model: str) -> None:
        """Close a model's sessions and forget it; none of its requests may be under way."""
        with self._opening:
            keys = [key for key in self._sessions if key[0] == model]
            closed = [self._sessions.pop(key) for key in keys]
        for sessions in closed:
            sessions.close()
        self._models.pop(model, None)
        for lane, job in list(self._jobs.items()):  # of runs that were stopped
            if job.requests[0].model == model:
                self._jobs.pop(lane, None)

    def release(self, request: Request) -> None:
        """A request is over: its buffers, once all that share them are, serve the next one."""
        known = self._held.pop(request.id, None)
        if known is not None:
            held = known[0]
            with self._giving_back:
                held.users.discard(request.id)
                if held.users or held.given_back:
                    return
                held.given_back = True
            held.split.release(held.buffers)

    def close(self) -> None:
        """Interrupt what runs, end all threads, and close the sessions."""
        super().close()
        for sessions in self._sessions.values():
            sessions.close()
        self._sessions.clear()

    def _sessions_for(self, model: str, cores: Sequence[Core]) -> BlockSessions:
        processors = tuple(number for core in cores for number in self.lanes[core.index])
        key = (model, processors if len(processors) > 1 else ())
        sessions = self._sessions.get(key)
        if sessions is not None:
            return sessions  # whatever else is being opened just now
        with self._opening:
            if key not in self._sessions:
                with ThreadPoolExecutor(1, initializer=give_way) as thread:
                    self._sessions[key] = thread.submit(self._open, model, processors).result()
            return self._sessions[key]

    def _open(self, model: str, processors: Sequence[int]) -> BlockSessions:
        """Open sessions whose threads inherit from this one where they may run, and how they rank.

        The lane's own thread is one of the session's and has the first processor.
        """
        with self._on(processors[1:]):
            return self._models[model].open(len(processors))

    def _begin(self, run: Run) -> _Job:
        requests = run.requests
        sessions = self._sessions_for(run.request.model, run.cores)
        held = self._held_for(requests, run.blocks.start)
        if len(requests) > 1:
            waiting = run.requests  # a member may have been given up before it was held here
            for request in requests:
                if request not in waiting:
                    self.release(request)
        job = self._jobs[run.cores[0].index] = _Job(sessions, held, requests)
        return job

    def _held_for(self, requests: tuple[Request, ...], block: int) -> _Held:
        """Where these requests' tensors lie together, in this order, before a block."""
        found = [self._held.get(request.id) for request in requests]
        first = found[0]
        if block and first is not None:
            if len(requests) == 1 and first[0].split.batch == 1:
                return first[0]
            places = [(first[0], at) for at in range(len(requests))]
            if first[0].split.batch == len(requests) and found == places:
                return first[0]
        model = self._models[requests[0].model]
        if not block:
            for request in requests:
                self.release(request)  # of an attempt that failed
            if len(requests) == 1:
                buffers = model.bind(self._inputs(requests[0]))
            else:
                buffers = model.bind_batch([self._inputs(request) for request in requests])
        else:
            parts = []
            for request, known in zip(requests, found, strict=True):
                if known is None:
                    raise HeadwayError(f"request {request.id}: what its earlier blocks made is lost")
                parts.append((known[0].buffers, known[1]))
            buffers = model.regroup(block, [self._inputs(request) for request in requests], parts)
            for request in requests:
                self.release(request)
        held = _Held(model.of_batch(len(requests)), buffers, [request.id for request in requests])
        for at, request in enumerate(requests):
            self._held[request.id] = (held, at)
        return held

    def _run_block(self, job: _Job, block: int, active: Active) -> None:
        job.sessions.run_block(block, job.held.buffers, active.interruption)

    def _end(self, run: Run) -> None:
        job = self._jobs.pop(run.cores[0].index)
        held = job.held
        for request in job.requests:
            self._held.pop(request.id, None)
        with self._giving_back:
            held.given_back = True
        if len(job.requests) == 1:
            results = [held.split.finish(held.buffers)]
        else:
            model = self._models[run.request.model]
            results = model.finish_batch(held.buffers, len(job.requests))
        if self._on_result is not None:
            waiting = run.requests
            for request, result in zip(job.requests, results, strict=True):
                if request in waiting:
                    self._on_result(request, result)

    def _is_repeatable(self, run: Run) -> bool:
        # A sum in place has no summand any more.
        return not self._models[run.request.model].of_batch(len(run.requests)).plan.taken_over

    def _interruption(self) -> Any:
        from headway.models.runtime_session import run_options

        return run_options()

    def _interrupt(self, active: Active) -> None:
        active.interruption.terminate = True
