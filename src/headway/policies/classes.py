"""Which requests are of high priority, for policies that know two classes."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.request import Request


class TopClass:
    """High priority are the requests with the highest class and priority seen so far, all others best effort.

    A strict request is above every best-effort one, whatever their priorities; so with one strict tenant
    and others that are not, it is that tenant, and with tenants that are all alike it is every request.
    """

    def __init__(self) -> None:
        self._top = (False, 0)

    def see(self, requests: Iterable[Request]) -> None:
        """Take notice of requests."""
        self._top = max([self._top, *((request.strict, request.priority) for request in requests)])

    def high(self, request: Request) -> bool:
        """Whether a request is of high priority."""
        return (request.strict, request.priority) >= self._top
