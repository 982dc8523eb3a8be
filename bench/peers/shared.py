"""What these scripts share with others in bench/: bare sessions, and the ideal."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from _bare import Bare, alone_s, serve, undisturbed
from _scores import ideal

__all__ = ["Bare", "alone_s", "ideal", "serve", "undisturbed"]
