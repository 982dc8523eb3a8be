"""The priority of work that must not disturb the lanes. Imports nothing heavy: it comes before all else."""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

LOWEST: Final = 19


class Rank(StrEnum):
    """How a process that works in the background ranks beside others. By itself it can only go down."""

    BEFORE_SERVING = "before serving"
    """The lowest priority, but the share of any program on the machine: nobody is being served yet."""
    IDLE = "idle"
    """Whoever else is to run takes the processor at once; a task that is merely nice keeps it for a while."""


def take_rank(rank: Rank) -> None:
    """Rank this thread, and those that it starts from now on, like that, where the system can."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    if rank is Rank.IDLE:
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def rank_session(process_id: int, priority: int) -> None:
    """Rank a process's session by a priority from 0, an equal share, to 19; it can go up again, too.

    Where sched_autogroup_enabled is set, Linux gives each session the same share, whatever the priorities
    within it. To be in the server's own session would be worse: beside other programs this work would use up
    the lanes' share. Where there is no such setting, and for a process that is gone, nothing happens.
    """
    with suppress(OSError):
        Path(f"/proc/{process_id}/autogroup").write_text(str(priority))
