"""What runs: the runs in progress, and the share of its full speed that each is believed to get."""

from __future__ import annotations

from headway.core.protocols import Contention, PairContention
from headway.core.request import Request
from headway.core.run import Run
from headway.core.throttle import throttled_rates


class RunningSet(dict[int, Run]):
    """Runs by their ids, in the order they started. Change it by `enter` and `leave` only.

    `throttles` says whether runs may have bandwidth caps.
    """

    __slots__ = ("_contention", "_of_request", "_pairs", "_rates", "_throttles")

    def __init__(self, contention: Contention, *, throttles: bool) -> None:
        super().__init__()
        self._contention = contention
        self._pairs = contention if isinstance(contention, PairContention) else None
        self._throttles = throttles
        self._of_request: dict[int, Run] = {}
        self._rates: dict[int, float] = {}  # empty after every change of the set

    def enter(self, run: Run) -> None:
        """A run starts."""
        self[run.id] = run
        for request in run.requests:
            self._of_request[request.id] = run
        self._rates.clear()

    def leave(self, run: Run) -> None:
        """A run is over."""
        del self[run.id]
        for request in run.requests:
            del self._of_request[request.id]
        self._rates.clear()

    def part(self, run: Run, request: Request) -> None:
        """One request of a batch is over while the others go on."""
        run.requests = tuple([other for other in run.requests if other is not request])
        del self._of_request[request.id]

    def of(self, request: Request) -> Run | None:
        """The run that a request is in."""
        return self._of_request.get(request.id)

    def rate(self, run: Run) -> float:
        """The share of its full speed that a run is believed to get among those that run now."""
        if not self._rates:
            self._rates = dict(zip(self, self._shares(), strict=True))
        return self._rates[run.id]

    def went_on(self) -> None:
        """A run is in its next segment, which may do something else to the others."""
        if self._pairs is not None:
            self._rates.clear()

    def recapped(self) -> None:
        """A run's bandwidth cap has changed."""
        self._rates.clear()

    def _shares(self) -> list[float]:
        if self._pairs is not None:
            runs = self.values()
            return self._pairs.rates_of(
                [run.segments[run.segment] for run in runs], [run.request for run in runs]
            )
        if not self._throttles:
            return self._contention.rates([run.bandwidth_bytes_s for run in self.values()])
        return throttled_rates(
            self._contention, [(run.bandwidth_bytes_s, run.bandwidth_cap_bytes_s) for run in self.values()]
        )
