"""Models for real: blocks run by ONNX Runtime on the lanes of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headway.core.device import Core
from headway.core.errors import HeadwayError
from headway.core.request import Request
from headway.core.run import Run
from headway.live.executors.lanes import Active, LaneExecutor

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


class _Job(NamedTuple):
    sessions: BlockSessions
    buffers: Buffers


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
        self._buffers: dict[int, Buffers] = {}

    @property
    def held(self) -> int:
        """How many requests have begun and are not over."""
        return len(self._buffers)

    @property
    def private_bytes(self) -> int | None:
        """Memory that all sessions took for themselves; None where the system does not tell."""
        parts = [sessions.private_bytes for sessions in self._sessions.values()]
        return None if None in parts else sum(part for part in parts if part is not None)

    def prepare(self, model: str, cores: Sequence[Core], batch: int = 1) -> None:
        """Open the sessions for these lanes together.

        Raises:
            HeadwayError: an unknown model, a batch of several requests, or a model that ONNX Runtime refuses.
        """
        if model not in self._models:
            raise HeadwayError(f"no model {model!r}; accepted: {', '.join(self._models)}")
        if batch != 1:
            raise HeadwayError(f"{model}: a batch of {batch} requests; accepted: 1, larger ones in the model")
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

    def release(self, request: Request) -> None:
        """A request is over: its buffers serve the next one."""
        buffers = self._buffers.pop(request.id, None)
        if buffers is not None:
            self._models[request.model].release(buffers)

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
                # Threads inherit where they may run from the one that makes them. The lane's own thread is
                # one of the session's and has the first processor.
                with self._on(processors[1:]):
                    self._sessions[key] = self._models[model].open(len(processors))
            return self._sessions[key]

    def _begin(self, run: Run) -> _Job:
        request = run.request
        sessions = self._sessions_for(request.model, run.cores)
        buffers = self._buffers.get(request.id)
        if buffers is None:
            if run.blocks.start:
                raise HeadwayError(f"request {request.id}: what its earlier blocks made is lost")
            buffers = self._models[request.model].bind(self._inputs(request))
            self._buffers[request.id] = buffers
        return _Job(sessions, buffers)

    def _run_block(self, job: _Job, block: int, active: Active) -> None:
        job.sessions.run_block(block, job.buffers, active.interruption)

    def _end(self, run: Run) -> None:
        request = run.request
        buffers = self._buffers.pop(request.id)
        results = self._models[request.model].finish(buffers)
        if self._on_result is not None:
            self._on_result(request, results)

    def _interruption(self) -> Any:
        import onnxruntime

        return onnxruntime.RunOptions()

    def _interrupt(self, active: Active) -> None:
        active.interruption.terminate = True
