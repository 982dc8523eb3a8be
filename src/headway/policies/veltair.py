"""Veltair: models in blocks of layers, each on as few cores as its share of the deadline needs.

After "VELTAIR: Towards High-Performance Multi-Tenant Deep Learning Services via Adaptive Compilation and
Scheduling" (ASPLOS 2022) and its public code (SJTU-ReArch-Group/VELTAIR_ASPLOS22, include/request.hpp): each
layer's share of the deadline is its share of the operations; a block has 20 layers and gets the least
multiple of 8 cores (of 64) with which it keeps its share, or all; if fewer are free it runs on those. A
request that is behind its shares asks for one step more, one well ahead (0.9) for one less.

Port: a step is an eighth of the cores, at least one. Which cores: those free on which the model is fastest.
Forming blocks by the variation of core demand (paper) and choosing among compiled versions of a layer have no
counterpart: the code has fixed blocks, and layers here have one version.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from headway.core.messages import Decision, Dispatch
from headway.core.protocols import Capability, View
from headway.core.request import Request
from headway.policies.base import Policy
from headway.policies.registry import policy
from headway.policies.spatial import Spatial, mode, runnable

BLOCK_LAYERS = 20
"""Layers of a block (SUB_MODEL_SIZE of the public code)."""

ALPHA, BETA = 1.0, 0.9
"""A block may take ALPHA times its share; a request is ahead when it took less than BETA times (public
code)."""

STEPS = 8
"""Steps in which cores are given."""


@policy("veltair")
class Veltair(Policy):
    """Veltair (ASPLOS 2022): blocks of layers on the fewest cores that keep their share of the deadline."""

    needs = frozenset({Capability.SPLIT})

    def __init__(self, *, block_layers: int = BLOCK_LAYERS, alpha: float = ALPHA, beta: float = BETA) -> None:
        self._block_layers = block_layers
        self._alpha, self._beta = alpha, beta
        self._spatial = Spatial()
        self._done: dict[str, list[float]] = {}

    def decide(self, view: View) -> Iterator[Decision]:
        """Give blocks, in order of arrival, the cores they ask for, or those that are left."""
        idle = list(view.idle)
        for request in view.ready:
            if not idle:
                return
            end = min(request.blocks, request.next_block + self._block_layers)
            fastest = self._spatial.fastest_first(request, idle, view)
            cores = runnable(request, fastest[: self.demand(request, end, view)], view)
            idle = [core for core in idle if core not in cores]
            yield Dispatch((request,), range(request.next_block, end), cores, mode(cores))

    def demand(self, request: Request, end: int, view: View) -> int:
        """The cores that a request asks for until a layer."""
        first, most = request.next_block, len(view.device.cores)
        done, step = self._shares(request, view), max(1, most // STEPS)
        relative_s = request.deadline_s - request.arrival_s
        allowed_s = self._alpha * relative_s * (done[end] - done[first])
        cores = step
        while cores < most and self._between_s(request, end, cores, view) > allowed_s:
            cores += step
        if first > 0:
            elapsed_s, share_s = view.now - request.arrival_s, relative_s * done[first]
            cores += step * ((elapsed_s > share_s) - (elapsed_s < self._beta * share_s))
        return min(most, max(1, cores))

    def _between_s(self, request: Request, end: int, cores: int, view: View) -> float:
        spatial = self._spatial
        return spatial.remaining_s(request, cores, view) - spatial.remaining_s(request, cores, view, end)

    def _shares(self, request: Request, view: View) -> list[float]:
        """By layer, the share of the model's operations that lie before it."""
        done = self._done.get(request.model)
        if done is None:
            table = view.table(request)
            work = [row[0].macs for row in table.serial]
            if not sum(work):
                work = list(table.best_s)  # on lanes operations are not counted
            total = sum(work) or 1.0
            done = self._done[request.model] = [each / total for each in accumulate(work, initial=0.0)]
        return done
