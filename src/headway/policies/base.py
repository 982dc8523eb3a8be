"""What every policy inherits: defaults for all but `decide`."""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.messages import Decision
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.core.run import Outcome, Run


class Policy:
    """A scheduler. Subclass it, implement `decide`, and register it with `@policy("name")`.

    `needs` declares what it may use beyond running blocks in series; the engine refuses the rest. With
    `at_block_ends` it is asked, too, whenever a run goes on to its next block. `estimator` names what tells
    it about costs: "default", or "foresight" for the true solo times of every request, in simulation only.
    With `needs_accelerator` it is refused on lanes before a run begins, with `needs_lanes` on accelerators.
    With `fixed_bands` it may run stacks in a fixed number of bands (`headway.core.bands`), which the bound on
    its results then regards.
    """

    needs: frozenset[Capability] = frozenset()
    at_block_ends: bool = False
    needs_accelerator: bool = False
    needs_lanes: bool = False
    fixed_bands: bool = False
    estimator: str = "default"

    def key(self, request: Request, view: View) -> tuple[float, ...]:
        """Its place in `view.ready`: by default in order of arrival."""
        return (request.arrival_s,)

    def decide(self, view: View) -> Iterable[Decision]:
        """What to do now."""
        raise NotImplementedError(f"{type(self).__name__} does not implement decide")

    def on_finish(self, run: Run, actual_s: float, view: View) -> None:
        """Called after each finished run; a policy that learns overrides it."""

    def on_gone(self, request: Request, reason: Outcome, view: View) -> None:
        """Called for each request that is over, however it ended; for policies that keep notes."""
