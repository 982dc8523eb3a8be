"""What a policy sees of the engine: read-only, valid during one call of decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from headway.core.block import Mode
from headway.core.device import Core, Device
from headway.core.messages import Dispatch
from headway.core.protocols import CostTable, Estimate
from headway.core.request import Request
from headway.core.run import Run

if TYPE_CHECKING:
    from headway.core.engine import Engine


Item = TypeVar("Item")


class ReadOnly(Sequence[Item]):
    """A list as others may see it: they can read it, not change it."""

    __slots__ = ("_items",)

    def __init__(self, items: list[Item]) -> None:
        self._items = items

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        return self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def __repr__(self) -> str:
        return repr(self._items)


class EngineView:
    """The View protocol over an engine's state."""

    __slots__ = ("_engine", "_ready")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ready = ReadOnly(engine.ready)

    @property
    def now(self) -> float:
        """The only time a policy knows, in seconds."""
        return self._engine.now

    @property
    def device(self) -> Device:
        """The device that is scheduled."""
        return self._engine.device

    @property
    def ready(self) -> Sequence[Request]:
        """Requests that wait, sorted by the policy's key, then arrival, then id."""
        return self._ready

    @property
    def idle(self) -> Sequence[Core]:
        """Cores without a run, and not reserved for one that moves, by index."""
        return tuple(self._engine.idle)

    @property
    def running(self) -> Sequence[Run]:
        """Runs in the order they started."""
        return tuple(self._engine.running.values())

    @property
    def moving(self) -> Sequence[Run]:
        """Runs that an Adjust has stopped and whose requests wait for the last of their `moving_to`."""
        return tuple(self._engine.moves.waiting())

    def table(self, request: Request) -> CostTable:
        """The cost table of the request's model."""
        return self._engine.estimator.table(request)

    def estimate(
        self, candidates: Sequence[Dispatch], beside: Sequence[Run | Dispatch] | None = None
    ) -> Sequence[Estimate]:
        """Estimates of candidates, each beside what runs now, or beside a hypothetical set."""
        engine = self._engine
        others = self.running if beside is None else beside
        extra = [self.extra_dram_bytes(c.requests[0], c.blocks.start, c.mode, c.cores) for c in candidates]
        return engine.estimator.estimate(candidates, others, extra, engine.now)

    def extra_dram_bytes(self, request: Request, first: int, mode: Mode, cores: Sequence[Core]) -> float:
        """What the residency ledger adds to (or saves from) the traffic of starting there."""
        return self._engine.ledger.extra_bytes(request, self.table(request), first, mode, cores)

    def remaining_s(self, request: Request) -> float:
        """Optimistic seconds of work left: every remaining block on its best core at full bandwidth."""
        return self._engine.estimator.table(request).remaining_s[request.next_block]

    def bandwidth_free(self) -> float:
        """DRAM bytes per second that the running set, within its caps, does not ask for; negative if it asks
        for more."""
        engine = self._engine
        asked = sum(run.asked_bytes_s for run in engine.running.values())
        return engine.device.dram_bandwidth_bytes_s - asked

    def memory_free(self, core: Core) -> float:
        """SRAM bytes of a core that hold no output that waits for the next layer."""
        return core.sram_bytes - self._engine.ledger.held_bytes(core)
