"""Names that other tools accept and Headway does not."""

from __future__ import annotations

import re


def plain_name(name: str) -> str:
    """A name of letters, digits, '.', '_' and '-' that resembles the one given."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64] or "unnamed"
