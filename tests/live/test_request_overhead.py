"""Measuring what a request of nothing takes."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from headway.live.processors import available
from headway.models.profile import DeviceProfile
from headway.wiring import overheads


def test_an_interrupt_while_measuring_is_not_lost() -> None:
    """The live driver takes SIGINT for a wish to end early; here there is more to stop."""
    lanes = [[available()[0]]]
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        overheads.measure_dispatch(lanes)


@pytest.mark.parametrize(
    ("by_gap_s", "cold_after_s"),
    [
        ({0.0: 1.0, 1.0: 1.1, 5.0: 1.2, 20.0: 3.0}, 12.5),
        ({0.0: 1.0, 1.0: 2.5, 5.0: 2.0, 20.0: 3.0}, 0.5),
        ({0.0: 3.5, 1.0: 3.0, 5.0: 3.0, 20.0: 3.0}, 0.5),  # nothing is saved
    ],
)
def test_a_lane_is_cold_from_where_half_of_the_difference_is_passed(
    by_gap_s: dict[float, float], cold_after_s: float
) -> None:
    found = overheads.Dispatch.of(by_gap_s)
    assert (found.cold_s, found.cold_after_s) == (3.0, cold_after_s)
    assert found.warm_s == min(3.0, by_gap_s[0.0])


def test_a_lane_that_goes_on_at_once_is_measured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overheads, "GAPS_S", (0.0, 2e-3))
    found = overheads.measure_dispatch([[available()[0]]])
    assert 0.0 < found.warm_s <= found.cold_s < 1.0
    profile = DeviceProfile("", "", 1, found.cold_s, 0.0, 0.0, found.warm_s, found.cold_after_s)
    assert DeviceProfile.from_json(profile.to_json()) == profile
