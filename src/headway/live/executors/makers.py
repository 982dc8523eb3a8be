"""Executors as they are sent to the process in which they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.core.errors import HeadwayError
from headway.core.protocols import Executor
from headway.live.executors.null import NullExecutor
from headway.live.executors.onnxruntime import TIMEOUT_S, InputSource, OnnxRuntimeExecutor, OnResult

if TYPE_CHECKING:
    from headway.models.chain import SplitModel

Make = Callable[[InputSource | None, OnResult | None], Executor]
"""Makes the executor in the child, given where inputs come from and results go; it must be picklable."""


@dataclass(frozen=True)
class OnnxRuntimeLanes:
    """Makes an OnnxRuntimeExecutor there; the arguments are its own.

    `replay` is where inputs come from if they are not sent with requests. Models keep their files here.
    """

    models: Mapping[str, SplitModel]
    lanes: Sequence[Sequence[int]]
    replay: InputSource | None = None
    timeout_s: float | None = TIMEOUT_S
    pin: bool = True

    def __call__(self, inputs: InputSource | None, on_result: OnResult | None) -> Executor:
        """Raises HeadwayError if there are no inputs."""
        source = inputs or self.replay
        if source is None:
            raise HeadwayError("lanes in a process need inputs; accepted: a replay there or inputs sent")
        return OnnxRuntimeExecutor(
            self.models, self.lanes, source, on_result=on_result, timeout_s=self.timeout_s, pin=self.pin
        )


@dataclass(frozen=True)
class NullLanes:
    """Makes a NullExecutor there; the arguments are its own."""

    seconds: Mapping[str, Sequence[float]]
    lanes: Sequence[Sequence[int]]
    timeout_s: float | None = None
    pin: bool = False

    def __call__(self, inputs: InputSource | None, on_result: OnResult | None) -> Executor:
        """Inputs and results are none of its business."""
        return NullExecutor(self.seconds, self.lanes, timeout_s=self.timeout_s, pin=self.pin)
