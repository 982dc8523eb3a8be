"""Headway, our own policy: one name, and a half for each kind of device.

On accelerators `headway_cores` decides, on lanes `headway_lanes`. Which one it is shows with the first
request, since a policy is made before it meets its device.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.messages import Decision
from headway.core.protocols import View
from headway.core.request import Request
from headway.core.run import Outcome, Run
from headway.policies.base import Policy
from headway.policies.headway_cores import OnCores
from headway.policies.headway_lanes import OnLanes
from headway.policies.registry import policy


@policy("headway")
@policy("headway:no-admission", admission=False)
@policy("headway:no-yielding", yielding=False)
@policy("headway:barrier", barrier=True)
@policy("headway:no-margin", margins=False, estimator="no-margin")
@policy("headway:no-calibration", estimator="no-calibration")
@policy("headway:no-fluid", estimator="no-fluid")
@policy("headway:oracle-overlap", estimator="oracle-overlap")
class Headway(Policy):
    """Serves those requests that can be on time together, in the runs that get most done.

    The arguments are for the ablations. On either kind of device, False leaves something out: `admission`,
    so that every request is served that can be saved by itself; `yielding` of runs to more urgent requests.
    On lanes only, and refused on accelerators: `barrier`, rounds in which lanes wait for each other;
    `margins`, without which means stand in for upper bounds; another `estimator` than the default.
    """

    needs = OnCores.needs | OnLanes.needs

    def __init__(
        self,
        *,
        admission: bool = True,
        yielding: bool = True,
        barrier: bool = False,
        margins: bool = True,
        estimator: str = "default",
    ) -> None:
        self._admission, self._yielding = admission, yielding
        self._barrier, self._margins = barrier, margins
        self.estimator = estimator
        self.needs_lanes = barrier or not margins or estimator != "default"
        self._half: OnCores | OnLanes | None = None

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """That of the half for this device."""
        return self._on(view).key(request, view)

    def decide(self, view: View) -> Iterable[Decision]:
        """What the half for this device decides."""
        return self._on(view).decide(view)

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Passed on."""
        self._on(view).on_finish(run, actual_s, view)

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Passed on."""
        self._on(view).on_gone(request, reason, view)

    def _on(self, view: View) -> OnCores | OnLanes:
        if self._half is None:
            if view.device.has_lanes:
                self._half = OnLanes(
                    admission=self._admission,
                    yielding=self._yielding,
                    barrier=self._barrier,
                    margins=self._margins,
                )
            else:
                self._half = OnCores(admission=self._admission, yielding=self._yielding)
            self.needs = self._half.needs
        return self._half
