"""Models on two simulated lanes, for comparisons of lane policies: made up, or of the zoo on a simulated GPU.

| device | models |
| --- | --- |
| lanes | made up, 2 to 24 ms in blocks of about 1 ms; a run over both has 0.85 of two runs' throughput |
| streams | the same without runs over both, dispatches of 20 us; pairs lose 0 to 0.5 |
| gpu | of the zoo at batch 1 on a simulated A100, each of another family |
| gpu-large | the same at batch 16, where a model alone fills the device |

Made-up models are bound by compute, by memory or by neither. Which models there are follows from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from headway.config import StreamHardware
from headway.core.block import Pressure
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost.lanes import LaneTable
from headway.models import load_model
from headway.models.profile import BlockProfile, DeviceProfile, ModelProfile, Timing
from headway.models.reading import zoo_model
from headway.predict.splits import shipped_splits, zoo_options
from headway.wiring.streams import stream_table
from headway.workload.draws import stream

DEVICES: Final = ("lanes", "streams", "gpu", "gpu-large")
LANES: Final = Device.of_lanes("two lanes", 2, 1, "")

GPU: Final = "a100-sxm-40gb"
_GPU_BATCH: Final = {"gpu": 1, "gpu-large": 16}

_DISPATCH_S: Final = {"lanes": 66e-6, "streams": 20e-6, "gpu": 20e-6, "gpu-large": 20e-6}
_SHORTEST_S, _LONGEST_S, _BLOCK_S = 2e-3, 24e-3, 1e-3
_WIDE_EFFICIENCY: Final = 0.85
_USUAL_W: Final = 0.3  # about what two side by side lose on lanes, which the efficiency is relative to
_SHARES: Final = {  # of the scarce resource, the other, places
    "lanes": (0.65, 0.65, 0.2),
    "streams": (0.75, 0.35, 0.35),
}

_OPERATORS: Final = (("Conv", "Relu"), ("Add", "MaxPool"), ("Gemm", "Relu"))  # as models are bound
_OPERATOR_S: Final = 1e-4
"""Of each pair of operators in a made-up block, so that predictors that count operators see its length."""


def block_tables(device: str, models: int, seed: int, later: int = 0) -> dict[str, LaneTable]:
    """Cost tables of some models, and of some that come later, which are as long and as short.

    Raises HeadwayError for an unknown device.
    """
    if device not in DEVICES:
        raise HeadwayError(f"device {device!r}; accepted: {', '.join(DEVICES)}")
    if device in _GPU_BATCH:
        return {
            f"m{at}": _of_zoo(f"m{at}", model, _GPU_BATCH[device])
            for at, model in enumerate(_drawn_models(models + later, seed))
        }
    return {f"m{at}": _made_up(device, f"m{at}", at, models, seed) for at in range(models + later)}


def _drawn_models(count: int, seed: int) -> list[str]:
    """Models of the zoo, families in a drawn order, each as often as any other."""
    families = shipped_splits().families
    draw = stream(seed, "models")
    drawn: list[str] = []
    while len(drawn) < count:
        order = draw.permutation(sorted(families)).tolist()
        drawn += [str(draw.choice(families[family])) for family in order]
    return drawn[:count]


@lru_cache(maxsize=128)
def _of_zoo(key: str, model: str, batch: int) -> LaneTable:
    name, options = zoo_options(model)
    graph = load_model(zoo_model(name, {**options, "batch": batch}, weights=False), name=name)
    hardware = StreamHardware.model_validate({"name": "gpu", "gpu": GPU, "block": "1 ms"})
    return stream_table(key, graph, hardware, LANES)[0]


def _made_up(device: str, name: str, at: int, count: int, seed: int) -> LaneTable:
    draw = stream(seed, "model", name, 0)
    share = (at % count + 0.5) / count
    alone_s = _SHORTEST_S * (_LONGEST_S / _SHORTEST_S) ** share * float(draw.uniform(0.8, 1.25))
    wide = device == "lanes"
    narrow_s = alone_s * 2 * _WIDE_EFFICIENCY / (1 + _USUAL_W) if wide else alone_s
    parts = draw.uniform(0.5, 1.5, max(1, round(narrow_s / _BLOCK_S)))
    parts /= parts.sum()
    scarce, other, places = _SHARES[device]
    bound = (at + int(draw.integers(2))) % 3  # compute, memory, neither
    pressures = []
    for block in range(len(parts)):
        jitter = float(draw.uniform(0.8, 1.2))
        compute = jitter * (scarce if bound == 0 else other)
        memory = jitter * (scarce if bound == 1 else other)
        pressures.append(Pressure(name, block, 1, compute, memory, places, 0.1))
    seconds = {1: [narrow_s * float(part) for part in parts]}
    by_lanes: dict[int, Sequence[Pressure]] = {1: pressures}
    if wide:
        seconds[2] = [alone_s * float(part) for part in parts]
        by_lanes[2] = [each._replace(lanes=2) for each in pressures]
    profiles = tuple(
        BlockProfile(
            f"{name}-{block}",
            "",
            0,
            max(1, round(narrow_s * float(parts[block]) / _OPERATOR_S)) * _OPERATORS[bound],
            {width: Timing.of([each[block]]) for width, each in seconds.items()},
        )
        for block in range(len(parts))
    )
    whole = {width: Timing.of([sum(each)]) for width, each in seconds.items()}
    zeros, copies = dict.fromkeys(seconds, 0.0), dict.fromkeys(seconds, 0)
    profile = ModelProfile(name, "", "", "", (), profiles, whole, zeros, copies, 0.0)
    return LaneTable(profile, LANES, DeviceProfile("", "", 2, _DISPATCH_S[device], 0.0, 0.0), by_lanes)
