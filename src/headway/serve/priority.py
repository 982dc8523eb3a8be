"""The priority of work that must not disturb the lanes. Imports nothing heavy: it comes before all else."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

_LOWEST: Final = 19


def lower_priority(*, only_when_idle: bool) -> None:
    """Put this thread, and those that it starts from now on, behind everything else of this session.

    `only_when_idle` is Linux's class for that: whoever else is to run takes the processor at once, while a
    task that is merely nice keeps it to the end of its slice. There is no way back without a privilege.
    Systems that do not have this stay as they are.
    """
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST)
    if only_when_idle:
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
