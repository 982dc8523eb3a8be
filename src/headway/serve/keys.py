"""API keys: made with 256 random bits, kept as hashes, compared in constant time.

The hash is plain SHA-256. Slow ones (scrypt and the like) protect secrets that people choose and that can be
guessed one after the other; nobody guesses 256 random bits, however fast the hash. It is worked out for every
request, and a slow one would cost more than most inferences.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final, TypeVar

PREFIX: Final = "hw_"
"""What every key begins with, so that programs which look for leaked secrets know it."""

MOST_CHARACTERS: Final = 512
_SCHEME: Final = "sha256:"
_BYTES: Final = 32

Owner = TypeVar("Owner")


def new_key() -> str:
    """A key that nobody has had before."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(key: str) -> str:
    """What a configuration holds of a key."""
    return _SCHEME + sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def owner_of(key: str, owners: Mapping[str, Owner]) -> Owner | None:
    """Whose key this is, by the keys' hashes; None if nobody's.

    Finding the hash takes a time that depends on it, which tells nothing: whoever could choose keys with a
    certain beginning of their hash would still have to guess all of it. The comparison takes the same time
    for every key.
    """
    if len(key) > MOST_CHARACTERS:
        return None
    found = hash_of(key)
    owner = owners.get(found)
    if owner is None:
        return None
    known = next(known for known in owners if known == found)
    return owner if compare_digest(known, found) else None
