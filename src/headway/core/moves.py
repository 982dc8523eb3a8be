"""Cores that nobody runs on: idle, or kept for requests on their way to other cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headway.core.block import Mode
from headway.core.device import Core
from headway.core.messages import Dispatch
from headway.core.request import Request, State
from headway.core.run import Run


@dataclass(slots=True, eq=False)
class Move:
    """A run whose request goes on with the rest of its range on `cores`, in that order.

    `kept` are the indices of those that nobody runs on. The others are still in use, by the run itself or by
    one that gives them up.
    """

    run: Run
    cores: tuple[Core, ...]
    kept: set[int] = field(default_factory=set)

    @property
    def request(self) -> Request:
        """What moves."""
        return self.run.request

    @property
    def complete(self) -> bool:
        """Whether its run has stopped, and all its cores are there."""
        return len(self.kept) == len(self.cores) and self.request.state is State.MOVING

    def dispatch(self) -> Dispatch:
        """The run with which it goes on."""
        blocks = range(self.request.next_block, self.run.blocks.stop)
        return Dispatch(
            (self.request,),
            blocks,
            self.cores,
            mode_on(self.cores),
            bandwidth_cap_bytes_s=self.run.bandwidth_cap_bytes_s,
        )


class Moves:
    """The moves in progress by request id, and the idle cores, in the order of their indices.

    Nothing here waits forever. A core is promised only if it is idle, the run's own, or in use by another run
    that was asked to stop or to move away from it, and to one move at a time. That other run reaches its safe
    point whatever others do, since runs wait for nobody, and cannot keep what was promised; and a request
    that waits holds none but the cores promised to itself.
    """

    __slots__ = ("_of_core", "by_request", "idle")

    def __init__(self, cores: Iterable[Core]) -> None:
        self.idle = list(cores)
        self.by_request: dict[int, Move] = {}
        self._of_core: dict[int, Move] = {}

    def promised_to(self, core: Core) -> Move | None:
        """The move that a core is promised to."""
        return self._of_core.get(core.index)

    def waiting(self) -> Iterator[Run]:
        """The runs that have stopped and whose requests wait for cores, in the order of their moves."""
        return (move.run for move in self.by_request.values() if move.request.state is State.MOVING)

    def begin(self, run: Run, cores: tuple[Core, ...]) -> None:
        """Promise cores to a run, which check_adjust has checked; an earlier move of it ends."""
        self.end(run.request)
        idle = {core.index for core in self.idle}
        move = Move(run, cores, idle & {core.index for core in cores})
        self.idle[:] = [core for core in self.idle if core.index not in move.kept]
        self.by_request[run.request.id] = move
        for core in cores:
            self._of_core[core.index] = move
        run.moving_to = cores

    def end(self, request: Request) -> None:
        """A request moves nowhere, or not any more: what was kept for it is idle."""
        move = self.by_request.pop(request.id, None)
        if move is None:
            return
        move.run.moving_to = None
        for core in move.cores:
            del self._of_core[core.index]
        self.free([core for core in move.cores if core.index in move.kept])

    def free(self, cores: Iterable[Core]) -> None:
        """Nobody runs on these cores any more: they are kept for whom they are promised to, or idle."""
        self.idle.extend([core for core in cores if not self._keep(core)] if self._of_core else cores)
        self.idle.sort(key=_core_index)

    def take_complete(self) -> list[Dispatch]:
        """What can go on now, in the order in which it was asked for; its cores are neither idle nor kept
        any more."""
        complete = [move for move in self.by_request.values() if move.complete]
        for move in complete:
            del self.by_request[move.request.id]
            for core in move.cores:
                del self._of_core[core.index]
        return [move.dispatch() for move in complete]

    def _keep(self, core: Core) -> bool:
        move = self._of_core.get(core.index)
        if move is None:
            return False
        move.kept.add(core.index)
        return True


def mode_on(cores: tuple[Core, ...]) -> Mode:
    """How a request that moves goes on there."""
    return Mode.SERIAL if len(cores) == 1 else Mode.SPLIT


def _core_index(core: Core) -> int:
    return core.index
