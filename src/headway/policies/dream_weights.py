"""DREAM's weights of starvation and energy, tuned online by what they do to UXCost."""

from __future__ import annotations

from headway.core.protocols import View
from headway.core.run import Run

WINDOW = 50
"""Replies after which UXCost is taken (ours)."""

STEP = 0.25
"""How far one probe changes a weight (ours)."""

LEAST, MOST = 0.0, 2.0
"""Range of both weights (paper)."""


class Weights:
    """alpha and beta, from 1 on, by a hill climb.

    Windows with the present weights and with one of them changed take turns. A change that lowered UXCost
    stays and is tried again in the same direction; another one is taken back, and the next probe goes the
    other way, then on to the other weight.
    """

    def __init__(self, *, window: int = WINDOW, step: float = STEP) -> None:
        self._window, self._size = window, step
        self._values = [1.0, 1.0]
        self._moves = 0  # which weight and direction the next probe has
        self._before: tuple[float, list[float]] | None = None  # cost and weights of the window before a probe
        self._replies: dict[str, list[int]] = {}  # by model: all, violations
        self._energy_pj: dict[str, list[float]] = {}  # by model: spent, at most

    @property
    def alpha(self) -> float:
        """Weight of starvation."""
        return self._values[0]

    @property
    def beta(self) -> float:
        """Weight of energy."""
        return self._values[1]

    def spend(self, run: Run, view: View) -> None:
        """A run took energy, on the costliest core that much at most."""
        table, kind = view.table(run.request), view.device.kind_of[run.cores[0].index]
        energy_pj = self._energy_pj.setdefault(run.request.model, [0.0, 0.0])
        for block in run.blocks:
            options = table.serial[block]
            energy_pj[0] += options[kind].energy_pj
            energy_pj[1] += max(option.energy_pj for option in options)

    def reply(self, model: str, *, violated: bool) -> None:
        """A request is over; after a window of them the weights change."""
        replies = self._replies.setdefault(model, [0, 0])
        replies[0] += 1
        replies[1] += violated
        if sum(count for count, _ in self._replies.values()) == self._window:
            self._step(self.ux_cost())
            self._replies.clear()
            self._energy_pj.clear()

    def ux_cost(self) -> float:
        """The sum of the models' shares of violations times the sum of their normalised energies."""
        violations = sum((bad or 0.5) / count for count, bad in self._replies.values())
        energies = sum(spent / most for spent, most in self._energy_pj.values() if most > 0.0)
        return violations * energies

    def _step(self, cost: float) -> None:
        if self._before is None:
            self._before = cost, list(self._values)
            weight, direction = self._moves % 4 // 2, (1.0, -1.0)[self._moves % 2]
            self._values[weight] = min(MOST, max(LEAST, self._values[weight] + direction * self._size))
            return
        before, values = self._before
        if cost >= before:
            self._values = values
            self._moves += 1
        self._before = None
