"""Tenants at the door: whose key it is, what they may use, and how much may come and wait."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from headway.config.serving import ANONYMOUS, Serving
from headway.config.serving_parts import ServedTenant
from headway.serve.keys import hash_of, owner_of
from headway.serve.refusal import Cause, Refusal


class TokenBucket:
    """Lets `burst` requests through at once and `rate` per second in the long run, exactly.

    Tokens are worked out from the time since the last one was taken, so nothing has to run meanwhile. Times
    are seconds on one clock and may come out of order by what threads take to get here. Not for use from
    several threads at once.
    """

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate, self.burst = rate, burst
        self._tokens, self._at_s = burst, now

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        if now > self._at_s:
            self._tokens = min(self.burst, self._tokens + (now - self._at_s) * self.rate)
            self._at_s = now
        if self._tokens >= 1.0 - 1e-9:  # tokens are sums of floats
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self.rate


class Door:
    """One tenant's bounds, and what it has unanswered. For use from any thread.

    `settings` may be replaced while requests are under way; what waits stays counted.
    """

    def __init__(self, settings: ServedTenant, now: float) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._bucket = _bucket(settings, now)
        self.requests = 0
        self.bytes = 0

    def change(self, settings: ServedTenant, now: float) -> None:
        """Other settings from now on; a bucket whose rate and burst stay keeps its tokens."""
        with self._lock:
            before, self.settings = self.settings, settings
            if (before.rate, before.burst) != (settings.rate, settings.burst):
                self._bucket = _bucket(settings, now)

    def enter(self, size: int, now: float) -> None:
        """Count a request of that many bytes in. Raises Refusal if it is one too many."""
        tenant, bound = self.settings.name, self.settings.queue
        with self._lock:
            if self.requests >= bound.requests:
                raise Refusal(
                    Cause.LIMITED,
                    f"tenant {tenant!r} has {self.requests} requests unanswered;"
                    f" accepted: at most {bound.requests}",
                )
            if size > bound.size:
                raise Refusal(
                    Cause.TOO_LARGE, f"the request has {size} bytes; accepted: at most {bound.size:.0f}"
                )
            if self.bytes + size > bound.size:
                raise Refusal(
                    Cause.LIMITED,
                    f"the request has {size} bytes, and {self.bytes} bytes of tenant {tenant!r} are"
                    f" unanswered; accepted: at most {bound.size:.0f} together",
                )
            wait_s = 0.0 if self._bucket is None else self._bucket.take(now)
            if wait_s > 0.0:
                raise Refusal(
                    Cause.LIMITED,
                    f"tenant {tenant!r} sends more than its rate of {self.settings.rate:g} requests a second"
                    f" with bursts of {_burst(self.settings):g}",
                    retry_after_s=wait_s,
                )
            self.requests += 1
            self.bytes += size

    def leave(self, size: int) -> None:
        """A request that was counted in has its answer."""
        with self._lock:
            self.requests -= 1
            self.bytes -= size


class Tenants:
    """All tenants of a server, by key.

    Without any key in the configuration every request is of one tenant: the only one that is listed, or the
    one named anonymous, or else one without an SLA. Where several tenants have no keys, a request's key may
    be a tenant's name: that is how traces of several tenants are replayed on a closed network.
    """

    def __init__(self, serving: Serving, now: float) -> None:
        self._doors: dict[str, Door] = {}
        self._owners: dict[str, Door] = {}
        self._controls: dict[str, bool] = {}
        self._anonymous: Door | None = None
        self.change(serving, now)

    @property
    def doors(self) -> Sequence[Door]:
        """Of all tenants."""
        return tuple(self._doors.values())

    @property
    def names(self) -> Iterable[str]:
        """Of all tenants."""
        return self._doors.keys()

    @property
    def anonymous(self) -> bool:
        """Whether requests need no key."""
        return self._anonymous is not None

    def change(self, serving: Serving, now: float) -> None:
        """Take another configuration; requests under way are not concerned."""
        wanted = serving.tenants or (_anonymous(),)
        if not serving.has_keys and len(wanted) > 1 and all(each.name != ANONYMOUS for each in wanted):
            wanted = (*wanted, _anonymous())
        doors: dict[str, Door] = {}
        for settings in wanted:
            door = self._doors.get(settings.name)
            if door is None:
                door = Door(settings, now)
            else:
                door.change(settings, now)
            doors[settings.name] = door
        if serving.has_keys:
            self._owners = {key: doors[each.name] for each in wanted for key in each.keys}
            self._anonymous = None
        else:
            self._owners = {hash_of(name): door for name, door in doors.items()}
            self._anonymous = doors.get(ANONYMOUS) or next(iter(doors.values()))
        self._controls = dict.fromkeys(serving.control_keys, True)
        self._doors = doors

    def of(self, key: str | None) -> Door:
        """The tenant with that key. Raises Refusal (UNAUTHENTICATED) if nobody has it."""
        anonymous = self._anonymous
        if not key:
            if anonymous is None:
                raise Refusal(Cause.UNAUTHENTICATED, "no API key; accepted: the key of a tenant")
            return anonymous
        door = owner_of(key, self._owners)
        if door is None:
            raise Refusal(Cause.UNAUTHENTICATED, "unknown API key; accepted: the key of a tenant")
        return door

    def require_control(self, key: str | None) -> None:
        """Raise Refusal unless this key may load and unload models.

        A server without any keys lets everybody who reaches its control port do that.
        """
        if self._anonymous is not None and not self._controls:
            return
        if not key:
            raise Refusal(Cause.UNAUTHENTICATED, "no API key; accepted: a control key or that of an admin")
        if owner_of(key, self._controls):
            return
        door = None if self._anonymous is not None else owner_of(key, self._owners)
        if door is None:
            raise Refusal(
                Cause.UNAUTHENTICATED, "unknown API key; accepted: a control key or that of an admin"
            )
        if not door.settings.admin:
            raise Refusal(
                Cause.FORBIDDEN,
                f"tenant {door.settings.name!r} may not load or unload models; accepted: a control key or"
                " that of an admin",
            )


def _anonymous() -> ServedTenant:
    return ServedTenant.model_validate({"name": ANONYMOUS})


def _bucket(settings: ServedTenant, now: float) -> TokenBucket | None:
    return None if settings.rate is None else TokenBucket(settings.rate, _burst(settings), now)


def _burst(settings: ServedTenant) -> float:
    return float(settings.burst or max(1.0, settings.rate or 1.0))
