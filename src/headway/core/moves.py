"""Requests on their way to other cores, and which cores are kept for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headway.core.device import Core
from headway.core.request import Request, State
from headway.core.run import Run


@dataclass(slots=True, eq=False)
class Move:
    """A run whose request goes on with the rest of its range on `cores`, in that order.

    `kept` are the positions of those that nobody runs on: they wait for it. The others are still in use, by
    the run itself or by one that gives them up.
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


class Moves:
    """Moves by request, and each core's move: a core is promised to one at most.

    Nothing here waits forever. A core is promised only if it is idle, the run's own, or in use by another run
    that was asked to stop or to move away from it. That one reaches its safe point whatever others do, since
    runs wait for nobody, and keeps no core that was promised; and a request that waits holds none but those
    promised to itself.
    """

    __slots__ = ("_of_core", "_of_request")

    def __init__(self) -> None:
        self._of_request: dict[int, Move] = {}
        self._of_core: dict[int, Move] = {}

    def __len__(self) -> int:
        return len(self._of_request)

    def promised_to(self, core: Core) -> Move | None:
        """The move that a core is promised to."""
        return self._of_core.get(core.index)

    def waiting(self) -> Iterator[Request]:
        """The requests that have stopped and wait for cores, in the order in which they were moved."""
        return (move.request for move in self._of_request.values() if move.request.state is State.MOVING)

    def add(self, run: Run, cores: tuple[Core, ...], kept: set[int]) -> None:
        """Promise cores to a run; those at the positions `kept` are free."""
        move = Move(run, cores, kept)
        self._of_request[run.request.id] = move
        for core in cores:
            self._of_core[core.index] = move

    def take_back(self, request: Request) -> list[Core]:
        """End a request's move, if it has one; returns the cores that were kept for it."""
        move = self._of_request.pop(request.id, None)
        if move is None:
            return []
        for core in move.cores:
            del self._of_core[core.index]
        return [core for core in move.cores if core.index in move.kept]

    def keep(self, core: Core) -> bool:
        """Keep a core that has come free if it is promised; False if it is not."""
        move = self._of_core.get(core.index)
        if move is None:
            return False
        move.kept.add(core.index)
        return True

    def complete(self) -> list[Move]:
        """The moves that can go on now, in the order in which they were asked for."""
        return [move for move in self._of_request.values() if move.complete]
