"""Descriptions of GPUs: what the predictor knows of a device, all of it from data sheets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any, Final

from headway.core.errors import HeadwayError

# Float32 multiply-adds that a watt pays for, by manufacturing process, in GFLOP/s per watt. The first value
# is measured: boards of 70 and 75 W (T4, P4) hold 43 to 47 in long matrix products while larger boards of
# such processes, which are not short of power, run at their clock. Later processes are assumed from the
# foundries' power reductions at equal speed (about half from 12 to 7 nm, 30 % from 7 to 5 nm).
_GFLOPS_PER_WATT: Final = ((12, 45.0), (7, 90.0), (0, 130.0))
_BEST_SHARE: Final = 0.8  # of the peak that a good matrix product reaches
# Share of the bandwidth that streams get. Published for stacked memory: 76 % on P100, 95 % since Volta
# (NVIDIA, "Volta: performance and programmability", IEEE Micro 2018), with a little off for what is no
# stream; memory in line with its error correction is taken to lose what P100 loses.
_DELIVERED, _DELIVERED_STACKED = 0.76, 0.92
_NEWEST: Final = 9.0
_HBM_FROM_GB_S: Final = 700.0

_REQUIRED: Final = ("bandwidth_gb_s", "sms", "clock_mhz", "fp32_gflops", "l2_mb")


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU as its data sheet describes it.

    `power_w` (board power) and `process_nm` (manufacturing process) say how much of the peak the board can
    sustain; without them it is taken to sustain all of it. `note` tells what a reader should know of the
    figures, such as a correction of a published one.
    """

    name: str
    bandwidth_gb_s: float
    sms: int
    clock_mhz: float
    fp32_gflops: float
    l2_mb: float
    power_w: float | None = None
    process_nm: float | None = None
    compute_capability: float = _NEWEST
    note: str = ""

    @property
    def peak_flops(self) -> float:
        """Float32 operations per second at the clock of the data sheet, a multiply-add counted as two."""
        return self.fp32_gflops * 1e9

    @property
    def sustained_flops(self) -> float:
        """The peak of a clock at which the board's power pays for good matrix products."""
        if self.power_w is None or self.process_nm is None:
            return self.peak_flops
        per_watt = next(gflops for nanometres, gflops in _GFLOPS_PER_WATT if self.process_nm >= nanometres)
        return min(self.peak_flops, self.power_w * per_watt * 1e9 / _BEST_SHARE)

    @property
    def delivered_bytes_s(self) -> float:
        """Bytes per second that a stream is expected to get from memory."""
        modern = self.has_stacked_memory and self.compute_capability >= 7.0
        return self.bandwidth_bytes_s * (_DELIVERED_STACKED if modern else _DELIVERED)

    @property
    def bandwidth_bytes_s(self) -> float:
        """Bytes per second between memory and chip."""
        return self.bandwidth_gb_s * 1e9

    @property
    def has_stacked_memory(self) -> bool:
        """Whether memory is stacked (HBM), whose error correction costs no bandwidth; told by bandwidth."""
        return self.bandwidth_gb_s >= _HBM_FROM_GB_S

    @property
    def l2_bytes(self) -> float:
        """Bytes of the second-level cache."""
        return self.l2_mb * 2**20


def device_from_mapping(name: str, described: Mapping[str, Any], where: str) -> GpuDevice:
    """A device from a mapping of the field names of `GpuDevice`.

    Args:
        name: what to call it.
        described: the fields; `power_w` and `process_nm` may be absent, both or none.
        where: the file, for messages.

    Raises:
        HeadwayError: a field is missing, unknown, or not a positive number.
    """
    accepted = [field.name for field in fields(GpuDevice) if field.name != "name"]
    unknown = [key for key in described if key not in accepted and key != "name"]
    if unknown:
        raise HeadwayError(f"{where}: {unknown[0]}: no such field; accepted: {', '.join(accepted)}")
    missing = [key for key in _REQUIRED if key not in described]
    if missing:
        raise HeadwayError(f"{where}: {missing[0]}: missing; needed: {', '.join(_REQUIRED)}")
    if ("power_w" in described) != ("process_nm" in described):
        raise HeadwayError(f"{where}: power_w and process_nm: accepted: both or none of them")
    values: dict[str, Any] = {}
    for key in (*_REQUIRED, "power_w", "process_nm", "compute_capability"):
        if key not in described:
            continue
        value = described[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise HeadwayError(f"{where}: {key}: {value!r}; accepted: a number above 0")
        if not math.isfinite(value) or value <= 0:
            raise HeadwayError(f"{where}: {key}: {value}; accepted: a number above 0")
        values[key] = value
    if values["sms"] != int(values["sms"]):
        raise HeadwayError(f"{where}: sms: {values['sms']}; accepted: a whole number")
    values["sms"] = int(values["sms"])
    return GpuDevice(name=name, note=str(described.get("note", "")), **values)


@cache
def known_devices() -> Mapping[str, GpuDevice]:
    """The devices that are shipped, by name."""
    file = files("headway.predict.gpu") / "data" / "devices.json"
    described = json.loads(file.read_text(encoding="utf-8"))
    return {name: device_from_mapping(name, entry, file.name) for name, entry in described.items()}


def known_device(name: str) -> GpuDevice:
    """A shipped device. Raises HeadwayError for a name that is not one."""
    devices = known_devices()
    if name not in devices:
        raise HeadwayError(
            f"GPU {name!r}: not known; accepted: {', '.join(sorted(devices))}, or a YAML or JSON file with "
            f"{', '.join(_REQUIRED)}"
        )
    return devices[name]
