"""Profiles kept between runs, by what was measured.

Those of another machine or runtime are not used again, nor are those taken while the machine was busy.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from headway.core.errors import HeadwayError
from headway.live.processors import machine, runtime
from headway.models.profile import ModelProfile


def cache_folder() -> Path:
    """Where profiles are kept: $HEADWAY_CACHE, else headway in $XDG_CACHE_HOME, else in ~/.cache."""
    chosen = os.environ.get("HEADWAY_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headway"


class Found(NamedTuple):
    """A profile that may be used, or None and why there is none (empty: there never was one).

    `measured_s` is when it was measured, in seconds since the epoch.
    """

    profile: ModelProfile | None
    reason: str
    measured_s: float = 0.0


class ProfileCache:
    """A folder with one file for each model and way of splitting it.

    The file's name tells what was measured; inside it says where. A file that cannot be read is warned of
    and measured anew; a folder that cannot be written is warned of too, and costs only the next run's time.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (cache_folder() if folder is None else folder) / "profiles"

    def path(self, model: str, identity: Sequence[object]) -> Path:
        """The file for a model; `identity` is all that its profile depends on but machine and runtime."""
        digest = sha256(repr(tuple(identity)).encode()).hexdigest()[:20]
        name = "".join(char if char.isalnum() or char in "-_." else "_" for char in model)[:60]
        return self.folder / f"{name}-{digest}.json"

    def find(self, model: str, identity: Sequence[object]) -> Found:
        """The profile of a model, if it was measured here, with this runtime, on a machine at rest."""
        path = self.path(model, identity)
        try:
            text = path.read_bytes()
            measured_s = path.stat().st_mtime
        except FileNotFoundError:
            return Found(None, "")
        except OSError as error:
            return self._unusable(path, str(error))
        try:
            profile = ModelProfile.from_json(text, str(path))
        except HeadwayError as error:
            return self._unusable(path, str(error))
        if profile.machine != machine():
            return Found(
                None, f"{model}: was profiled on another machine ({profile.machine}); measured again"
            )
        if profile.runtime != runtime():
            return Found(None, f"{model}: was profiled with {profile.runtime}; measured again")
        if profile.unsteady:
            return Found(
                None, f"{model}: was profiled on a busy machine ({profile.unsteady}); measured again"
            )
        return Found(profile, "", measured_s)

    def keep(self, profile: ModelProfile, identity: Sequence[object]) -> None:
        """Write a profile, in one piece."""
        path = self.path(profile.model, identity)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".part", delete=False) as file:
                file.write(profile.to_json())
            os.replace(file.name, path)
        except OSError as error:
            warnings.warn(f"{path}: the profile is not kept: {error}", stacklevel=2)

    @staticmethod
    def _unusable(path: Path, cause: str) -> Found:
        warnings.warn(f"{path}: the profile is ignored: {cause}", stacklevel=3)
        return Found(None, f"{path}: could not be read; measured again")
