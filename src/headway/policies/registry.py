"""The one place where policies are registered, by a decorator, and made, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final, TypeVar

from headway.core.errors import HeadwayError
from headway.policies.base import Policy
from headway.policies.dropping import SUFFIX, Dropping

_POLICIES: dict[str, tuple[type[Policy], dict[str, object]]] = {}

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,63}")

PolicyType = TypeVar("PolicyType", bound=type[Policy])


def policy(name: str, **options: object) -> Callable[[PolicyType], PolicyType]:
    """Register a class under a name; `options` are passed to its constructor.

    A class may be registered several times, for instance for its ablations ("lucas:lbl"). Raises
    ValueError if the name is taken by another class or cannot be one, TypeError if it is no Policy.
    """
    if not _NAME.fullmatch(name) or name.endswith(SUFFIX):
        raise ValueError(
            f"policy {name!r}: accepted as a name: letters, digits, '_', ':', '.' and '-', at most 64,"
            f" without {SUFFIX!r} at the end"
        )

    def register(cls: PolicyType) -> PolicyType:
        if not issubclass(cls, Policy):
            raise TypeError(f"policy {name!r}: {cls.__name__} is no subclass of headway.Policy")
        known = _POLICIES.get(name)
        own = (cls.__module__, cls.__qualname__)
        if known is not None and (known[0].__module__, known[0].__qualname__) != own:
            taken = f"{known[0].__name__} of {known[0].__module__}"
            raise ValueError(f"policy {name!r} is already registered by {taken}")
        _POLICIES[name] = (cls, options)
        return cls

    return register


def names() -> tuple[str, ...]:
    """All registered policies, in alphabetical order."""
    return tuple(sorted(_POLICIES))


def describe(name: str) -> str:
    """The first line of a policy's docstring, empty if it has none, and the options of a variant."""
    cls, options = _POLICIES[name]
    words = (cls.__doc__ or "").strip().partition("\n")[0]
    given = ", ".join(f"{option}={value}" for option, value in options.items())
    return f"{words.removesuffix('.')} ({given})." if given else words


def make(name: str) -> Policy:
    """A fresh policy of that name; with ":drop" behind it, under the common early-drop rule.

    Raises HeadwayError, naming those that exist, if there is none, or with its cause if it cannot be made.
    """
    if name in _POLICIES:
        return _made(name)
    inner = name.removesuffix(SUFFIX)
    if inner != name and inner in _POLICIES:
        return Dropping(_made(inner))
    close = get_close_matches(inner, _POLICIES, n=1)
    hint = f"; did you mean {close[0] + name[len(inner) :]!r}?" if close else ""
    raise HeadwayError(
        f"policy: found {name!r}; accepted: {', '.join(names())}, each also with {SUFFIX!r} behind it{hint}"
    )


def _made(name: str) -> Policy:
    cls, options = _POLICIES[name]
    try:
        return cls(**options)
    except Exception as error:
        raise HeadwayError(f"policy {name!r} cannot be made: {type(error).__name__}: {error}") from error
