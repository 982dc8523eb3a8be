"""What the nodes of a model take, by ONNX Runtime's profiler in sessions that intake goes on to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from time import thread_time
from typing import Final

from headway.core.errors import HeadwayError
from headway.live.rehearsal import MOST_MISSING, Rehearsals
from headway.models.boundary_cost import boundary_cost
from headway.models.chain import SplitModel
from headway.models.even import BlockLimits
from headway.models.node_times import estimated_node_s, read_node_s
from headway.models.node_work import NodeWork, node_works
from headway.models.prepared import PreparedModel
from headway.models.sample_inputs import Inputs
from headway.models.split import split

_SHORT_S: Final = 0.02
_SHORT_RUNS: Final = 3
"""Nodes of a model that seems to take less than that are timed in that many runs, others in one."""

_MOST_RUNS: Final = 4
"""Of a model whose runs other work disturbs."""


@dataclass(frozen=True, slots=True)
class ProfiledNodes:
    """What the nodes of a model do and take, on which its even blocks rest."""

    prepared: PreparedModel
    inputs: Inputs
    works: Sequence[NodeWork]
    node_s: Sequence[float]

    def blocks(self, width: int, limits: BlockLimits | None) -> SplitModel:
        """Even blocks."""
        return split(
            self.prepared,
            threads=width,
            limits=limits,
            node_s=self.node_s,
            cost=boundary_cost(width),
            verify=False,
        )


@contextmanager
def profiled_nodes(
    prepared: PreparedModel, processors: Sequence[int], sample: Inputs | None, seed: int
) -> Iterator[tuple[ProfiledNodes, SplitModel, Rehearsals]]:
    """What nodes take, and the whole model as one block with its sessions, which have run and stay open.

    The same sessions serve both, so that the model is loaded and warmed up once. A run that other work
    disturbed is followed by another, since it would make single nodes, and so the blocks, look long.
    """
    works = node_works(prepared)
    runs = _SHORT_RUNS if sum(estimated_node_s(prepared, len(processors), works)) < _SHORT_S else 1
    whole = replace(
        split(prepared, (), verify=False), profile_prefix=str(prepared.workspace.folder / "profile")
    )
    *others, last = input_candidates(prepared, sample, seed)
    with ExitStack() as opened:

        def times(inputs: Inputs) -> tuple[ProfiledNodes, SplitModel, Rehearsals]:
            rehearsals = opened.enter_context(Rehearsals(whole, processors, inputs))
            done = 0
            try:
                rehearsals.run()
                missing = 1.0
                while done < runs or (missing > MOST_MISSING and done < _MOST_RUNS):
                    before_s = thread_time()
                    total_s = sum(rehearsals.run())
                    own_s = thread_time() - before_s
                    missing = 1.0 - own_s / total_s if len(processors) == 1 and total_s > 0.0 else 0.0
                    done += 1
            finally:
                paths = rehearsals.end_profiling()
            node_s = read_node_s(paths[0], prepared, done) if paths else (0.0,) * len(prepared.graph)
            return ProfiledNodes(prepared, inputs, works, node_s), whole, rehearsals

        for inputs in others:
            with suppress(HeadwayError):
                found = times(inputs)
                break
        else:
            found = times(last)
        yield found


def input_candidates(prepared: PreparedModel, sample: Inputs | None, seed: int) -> list[Inputs]:
    """Inputs to try: those that were given, else made-up ones, whose integers are 0 or else 1."""
    if sample is not None:
        return [sample]
    has_integers = any("int" in value.dtype for value in prepared.inputs.values())
    return [prepared.sample(seed, integer=integer) for integer in ((0, 1) if has_integers else (0,))]
