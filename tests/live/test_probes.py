"""What blocks take beside the probes."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pytest

from headway.live import probes
from headway.live.probes import probed_slowdowns, ruling_class
from headway.live.processors import available
from headway.live.profiler import take_in
from headway.models import zoo
from headway.models.block_work import BlockWork
from headway.models.even import BlockLimits
from headway.predict.features import PROBES


def work(**shares: float) -> BlockWork:
    return BlockWork(1, 1, 1, 1, 1.0, 1, 1, shares)


class Script:
    """Stands in for rehearsals: alone each block takes 50 ms, beside the memory probe some take longer."""

    beside: tuple[float, ...] = ()

    def __init__(self, *_: Any) -> None:
        self.runs = 0

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        pass

    def run(self) -> list[float]:
        self.runs += 1
        return [0.05] * 3 if self.runs <= 2 else list(self.beside)


def test_blocks_of_a_class_share_one_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    works = [work(matmul=0.9, movement=0.1), work(movement=1.0), work(matmul=0.6, elementwise=0.4)]
    assert [ruling_class(of) for of in works] == ["matmul", "movement", "matmul"]
    monkeypatch.setattr(Script, "beside", (0.1, 0.04, 0.05))
    monkeypatch.setattr(probes, "Rehearsals", Script)
    found = probed_slowdowns(None, works, {}, (), available()[-1:])  # type: ignore[arg-type]
    assert [set(of) for of in found] == [set(PROBES)] * 3
    assert found[0]["memory"] == found[2]["memory"] == pytest.approx(0.15 / 0.1)
    assert found[1]["memory"] == 1.0  # never faster for company


def test_probing_is_part_of_intake_where_there_is_another_lane() -> None:
    model, lanes = zoo.build("squeezenet", image_size=64), available()
    limits = BlockLimits(target_s=0.5e-3, overhead_share=0.5)
    probed = take_in(model, {1: lanes[:1]}, limits=limits, probed_beside=lanes[-1:]).profile
    for block in probed.blocks:
        assert set(block.slowdowns) == set(PROBES)
        assert all(1.0 <= ratio < 1e3 for ratio in block.slowdowns.values())
    alone = take_in(model, {1: lanes[:1]}, limits=limits).profile
    assert all(block.slowdowns == {} for block in alone.blocks)
