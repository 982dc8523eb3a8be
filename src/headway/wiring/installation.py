"""Making models run on a server's lanes, and taking them away again."""

from __future__ import annotations

import threading
from dataclasses import replace
from hashlib import sha256
from itertools import count
from math import inf
from typing import Final, Protocol

from headway.core.block import Mode
from headway.core.device import Core, Device
from headway.core.errors import HeadwayError
from headway.core.protocols import Executor
from headway.core.request import Request
from headway.cost.lanes import LaneTable
from headway.live.profiler import Intake
from headway.models.chain import SplitModel
from headway.models.profile import DeviceProfile
from headway.predict.features import DeviceLimits
from headway.serve.admission import FIRST_RUNS, Admission
from headway.serve.engine_service import EngineService
from headway.serve.intake import IntakeProcess
from headway.serve.loaded import Loaded
from headway.serve.refusal import Refusal
from headway.serve.repository import ModelSource
from headway.serve.service import InferenceResult
from headway.wiring.lanes import lane_table

WARM_UP_LIMIT_S: Final = 120.0
TOLD_LATER_S: Final = 5.0
"""Many times what the log's writer takes to hand rows on."""


class ModelExecutor(Executor, Protocol):
    """An executor that takes models in and lets them go."""

    def admit(self, model: str, split: SplitModel) -> None: ...

    def retire(self, model: str) -> None: ...


class Installation:
    """Makes models run on the lanes. Implements `headway.serve.lifecycle.Installer`."""

    def __init__(
        self,
        device: Device,
        overheads: DeviceProfile,
        intake: IntakeProcess,
        sets: tuple[tuple[Core, ...], ...],
        limits: DeviceLimits | None = None,
    ) -> None:
        """`limits` of all lanes are given where overlaps are predicted from what blocks ask for."""
        self.tables: dict[str, LaneTable] = {}
        self.executor: ModelExecutor
        self.service: EngineService
        self.admission: Admission
        self._device, self._overheads, self._intake, self._sets = device, overheads, intake, sets
        self._limits = limits
        self._in_use: set[str] = set()

    def install(self, source: ModelSource) -> Loaded:
        """Take a model in, make it known to the engine, run it once. Raises HeadwayError if that fails."""
        intake = self._intake.take_in(source, source.name)
        key = self._key(source, intake)
        profile = replace(intake.profile, model=key)  # what blocks press on is told by the engine's name
        table = lane_table(profile, self._device, self._overheads, self._limits)
        loaded = Loaded.of(
            source.name, source.version, key, intake, table.isolated_s, source.labels, source.batching
        )
        self._in_use.add(key)
        self.tables[key] = table
        try:
            self.executor.admit(key, intake.split)
            for cores in self._sets:
                self.executor.prepare(key, cores)
            for _ in range(FIRST_RUNS):
                self._warm_up(loaded, intake)
        except BaseException:
            self.remove(loaded)
            raise
        return loaded

    def remove(self, loaded: Loaded) -> None:
        """Close its sessions and forget its costs; its files go with the last reference to it.

        Whoever learns from the log hears of its last runs a moment later, so that costs stay until then.
        """
        self.executor.retire(loaded.key)
        self._in_use.discard(loaded.key)
        table = self.tables[loaded.key]
        later = threading.Timer(TOLD_LATER_S, self._forget, (loaded.key, table))
        later.daemon = True
        later.start()

    def _forget(self, key: str, table: LaneTable) -> None:
        if key not in self._in_use and self.tables.get(key) is table:
            del self.tables[key]
            self.admission.forget(key)

    def least_s(self, request: Request) -> float:
        """Seconds that the rest of a request takes alone, on as many lanes as make it fastest."""
        table = self.tables[request.model]
        first = request.next_block
        seconds = table.remaining_s[first]
        for cores in self._sets:
            if len(cores) > 1 and len(cores) in table.lanes_measured:
                option = table.option(Mode.SPLIT, first, table.blocks, (0,) * len(cores))
                seconds = min(seconds, option.seconds(inf))
        return seconds

    def _key(self, source: ModelSource, intake: Intake) -> str:
        """The engine's name: the same for the same blocks and times, since policies keep notes by it, but of
        two that are loaded at one time."""
        profile = intake.profile
        blocks: list[tuple[object, ...]] = [
            (block.content_hash, sorted(block.seconds.items()), *block.batch_seconds.items())
            for block in profile.blocks
        ]
        digest = sha256(repr((profile.content_hash, blocks)).encode()).hexdigest()[:12]
        plain = f"{source.name}/{source.version}@{digest}"
        return next(key for n in count() if (key := f"{plain}+{n}" if n else plain) not in self._in_use)

    def _warm_up(self, loaded: Loaded, intake: Intake) -> None:
        answered = threading.Event()
        answers: list[InferenceResult | Refusal] = []

        def done(answer: InferenceResult | Refusal) -> None:
            answers.append(answer)
            answered.set()

        self.service.warm_up(loaded, intake.inputs, done)
        if not answered.wait(WARM_UP_LIMIT_S):
            raise HeadwayError(f"its first run was not over within {WARM_UP_LIMIT_S:g} s")
        if isinstance(answers[0], Refusal):
            raise HeadwayError(answers[0].message)
