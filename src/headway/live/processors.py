"""Keeping threads on processors, and telling one machine from another."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from headway.core.errors import HeadwayError

CAN_PIN: Final = hasattr(os, "sched_setaffinity")
_USUAL_CACHE_BYTES: Final = 32 << 20


def available() -> tuple[int, ...]:
    """The numbers of the processors that this process may use, ascending."""
    if CAN_PIN:
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


@contextmanager
def staying_on(processors: Sequence[int]) -> Iterator[None]:
    """Keep this thread, and those that it starts meanwhile, on these processors; nowhere special if empty.

    Does nothing on systems that do not let a process choose.
    """
    if not CAN_PIN or not processors:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@cache
def machine() -> str:
    """What must be the same for measured times to hold: architecture, processor, features, their number."""
    model, features = platform.processor() or "unknown processor", ""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            model = value.strip()
        elif key.strip() in ("flags", "Features"):
            features = sha256(" ".join(sorted(value.split())).encode()).hexdigest()[:8]
    return f"{platform.machine()}, {model}, {os.cpu_count()} processors, features {features or 'unknown'}"


@cache
def last_cache_bytes() -> int:
    """Bytes of the last cache that processors share; 32 MiB where the system does not tell."""
    sizes = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    found = 0
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            text = path.read_text().strip()
            unit = sizes.get(text[-1:], 1)
            found = max(found, int(text.rstrip("KMG")) * unit)
    return found or _USUAL_CACHE_BYTES


@cache
def runtime() -> str:
    """ONNX Runtime with its version."""
    from importlib.metadata import version

    return f"onnxruntime {version('onnxruntime')}"


def check_lanes(lanes: Sequence[Sequence[int]], *, pinned: bool) -> None:
    """Raise HeadwayError for a lane without processors, a processor in two lanes, or, if threads shall stay
    there, one that this process may not use."""
    used = [processor for lane in lanes for processor in lane]
    shown = f"lanes {[list(lane) for lane in lanes]}"
    if not lanes or not all(lanes):
        raise HeadwayError(f"{shown}: a lane has no processors; accepted: at least one")
    if len(set(used)) != len(used):
        raise HeadwayError(f"{shown}: a processor is in two lanes; accepted: each in one")
    if pinned:
        allowed = set(available())
        missing = sorted(set(used) - allowed)
        if missing:
            raise HeadwayError(
                f"{shown}: this process may not use processor {missing[0]};"
                f" accepted: {', '.join(map(str, sorted(allowed)))}"
            )
