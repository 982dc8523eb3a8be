"""Which of a model's versions are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.core.errors import HeadwayError


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The newest `latest` versions, or those listed in `specific`, or, with neither, all of them."""

    latest: int | None = None
    specific: tuple[int, ...] = ()

    def chosen(self, there: Iterable[int]) -> tuple[int, ...]:
        """Those of these versions that are served, ascending."""
        ordered = sorted(there)
        if self.specific:
            return tuple(version for version in ordered if version in self.specific)
        return tuple(ordered if self.latest is None else ordered[-self.latest :])


LATEST = VersionPolicy(latest=1)
"""What is served without a policy."""

ALL = VersionPolicy()


def version_policy(data: Any, where: str) -> VersionPolicy:
    """A policy: {latest: {num_versions: 2}}, {specific: {versions: [1, 3]}} or {all: {}}.

    Raises HeadwayError for anything else.
    """
    accepted = "accepted: latest with num_versions, specific with versions, or all"
    if not isinstance(data, Mapping) or len(data) != 1:
        raise HeadwayError(f"{where}: found {_shown(data)}; {accepted}")
    ((kind, given),) = data.items()
    if given is not None and not isinstance(given, Mapping):
        raise HeadwayError(f"{where}.{kind}: found {_shown(given)}; {accepted}")
    fields = dict(given or {})
    if kind == "latest":
        count = _number(fields.pop("num_versions", 1), f"{where}.latest.num_versions")
        policy = VersionPolicy(latest=count)
    elif kind == "specific":
        listed = fields.pop("versions", [])
        if not isinstance(listed, (list, tuple)):
            listed = [listed]
        if not listed:
            raise HeadwayError(f"{where}.specific.versions: found none; accepted: at least one version")
        policy = VersionPolicy(
            specific=tuple(_number(version, f"{where}.specific.versions") for version in listed)
        )
    elif kind == "all":
        policy = ALL
    else:
        raise HeadwayError(f"{where}: found {_shown(kind)}; {accepted}")
    if fields:
        raise HeadwayError(f"{where}.{kind}: unknown field {_shown(next(iter(fields)))}; {accepted}")
    return policy


def _number(value: Any, where: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)  # JSON writes 64-bit numbers as text
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 63:
        raise HeadwayError(f"{where}: found {_shown(value)}; accepted: a whole number from 1 on")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
