"""Measuring what a request of nothing takes."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from headway.core.device import Device
from headway.live.processors import available
from headway.wiring import overheads


def test_an_interrupt_while_measuring_is_not_lost() -> None:
    """The live driver takes SIGINT for a wish to end early; here there is more to stop."""
    lanes = [[available()[0]]]
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        overheads.measure_request_s(Device.of_lanes("one", 1, 1, ""), lanes)
