"""A live run that is fed from outside: the driver on a thread of its own, and timers for deadlines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from headway.core.engine import Engine
from headway.core.messages import Arrive, Cancel, Reply
from headway.core.protocols import Executor, Skip
from headway.core.request import Request
from headway.live.clock import LiveClock, WallClock
from headway.live.driver import LiveDriver
from headway.live.report import LiveReport
from headway.live.thread_ranks import answering_soon


class Timers:
    """Calls with a request's id at a time of a clock, on one thread. It sleeps in between.

    Only ids are kept, so that a timer whose request was answered long ago holds none of its tensors.
    """

    def __init__(self, call: Callable[[int], None], now: Callable[[], float]) -> None:
        self._call, self._now = call, now
        self._times: list[tuple[float, int]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="headway deadlines", daemon=True)
        self._thread.start()

    def set(self, at_s: float, id: int) -> None:
        """Have the call made then, or at once if that is past; from any thread."""
        with self._changed:
            heappush(self._times, (at_s, id))
            if self._times[0] == (at_s, id):
                self._changed.notify()

    def close(self) -> None:
        """Make no further calls."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        with answering_soon():
            while (id := self._next()) is not None:
                self._call(id)

    def _next(self) -> int | None:
        with self._changed:
            while not self._closing:
                if not self._times:
                    self._changed.wait()
                    continue
                left_s = self._times[0][0] - self._now()
                if left_s <= 0.0:
                    return heappop(self._times)[1]
                self._changed.wait(min(left_s, 3600.0))
        return None


class NoSource:
    """Nothing arrives but what is posted. Implements `headway.core.protocols.Source`."""

    def __init__(self, begun: Callable[[], None] = lambda: None) -> None:
        self._begun = begun

    def first(self) -> Iterable[Arrive]:
        """None; the driver's clock has started by now."""
        self._begun()
        return ()

    def after(self, reply: Reply, now: float) -> Iterable[Arrive | Skip]:
        """None."""
        return ()


class LiveService:
    """The live driver on a thread, open for requests until it is stopped.

    Args:
        engine: forgiving, so that a faulty policy costs decisions, not the service.
        executor: of its cores; what is loaded later is prepared before its first request.
        on_reply: called for every request, one at a time, on the driver's thread or one that the executor
            lends; it must not block.
        on_broken: called on that thread if the driver ends by a defect.
        clock: the driver's.
    """

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        *,
        on_reply: Callable[[Reply], None],
        on_broken: Callable[[BaseException], None],
        clock: LiveClock | None = None,
    ) -> None:
        self.engine = engine
        self.executor = executor
        self._clock = WallClock() if clock is None else clock
        self._begun = threading.Event()
        self._on_broken = on_broken
        self._driver = LiveDriver(
            engine,
            NoSource(self._begun.set),
            executor,
            self._clock,
            on_reply=on_reply,
            open_ended=True,
        )
        self._thread = threading.Thread(target=self.run, name="headway driver", daemon=True)
        self.report: LiveReport | None = None

    def start(self) -> None:
        """Begin; times are seconds from now on."""
        self._thread.start()
        self._begun.wait()

    def timers(self, call: Callable[[int], None]) -> Timers:
        """Timers on the clock of requests; close them."""
        return Timers(call, self.now)

    @property
    def alive(self) -> bool:
        """Whether requests are served at all."""
        return self._thread.is_alive()

    def now(self) -> float:
        """The time of requests, in seconds."""
        return self._clock.now()

    def submit(self, request: Request) -> None:
        """Post a request; its reply comes whatever happens to it. From any thread."""
        self._clock.post(Arrive(request))

    def cancel(self, id: int) -> None:
        """Give a request up: at once if it waits, at the end of its block if it runs. From any thread."""
        self._clock.post(Cancel(id))

    def finish(self) -> None:
        """End once all requests that were submitted have their replies."""
        self._driver.finish()

    def stop(self, limit_s: float) -> bool:
        """Answer what is there and end; what takes longer than that is cancelled, at last amid its block.

        Returns whether all ended within the limit.
        """
        self.finish()
        self._thread.join(limit_s)
        in_time = not self._thread.is_alive()
        for _ in range(2):
            if self._thread.is_alive():
                self._driver.interrupt()
                self._thread.join(2.0)
        return in_time

    def run(self) -> None:
        """Serve on this thread until it is stopped, in place of `start`."""
        try:
            self.report = self._driver.run()
        except BaseException as error:  # a defect: whoever waits for a reply must hear of it
            self._on_broken(error)
        finally:
            self._begun.set()
