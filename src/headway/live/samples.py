"""Measuring one network alone: every node by ONNX Runtime's profiler, and the whole as lanes run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import sleep
from typing import Final

from headway.live.processors import staying_on
from headway.live.rehearsal import OTHER_BYTES, REST_S, Rehearsals
from headway.models.network_sample import NetworkSample
from headway.models.node_times import profiled_node_s
from headway.models.node_work import node_works
from headway.models.prepared import PreparedModel
from headway.models.split import split

_PROFILED_RUNS: Final = 5
_WHOLE_RUNS: Final = 7


def measured_network(
    prepared: PreparedModel, number: int, family: str, processors: Sequence[int]
) -> NetworkSample:
    """Time a prepared network on these processors, with as many threads.

    Each run comes after a rest and with caches full of other things, as it does at intake. Nodes have the
    least of five runs, the whole the second least of seven: other work on the machine only ever adds.

    Raises:
        HeadwayError: the network does not run.
    """
    inputs = prepared.sample()
    forget = _forgetting()
    with staying_on(processors):
        node_s = profiled_node_s(
            prepared, len(processors), runs=_PROFILED_RUNS, inputs=inputs, before_run=forget
        )
    with Rehearsals(split(prepared, (), verify=False), processors, inputs) as rehearsals:
        rehearsals.run()
        totals_s = []
        for _ in range(_WHOLE_RUNS):
            forget()
            totals_s.append(sum(rehearsals.run()))
    total_s = sorted(totals_s)[1]
    return NetworkSample(number, family, len(processors), node_works(prepared), node_s, total_s)


def _forgetting() -> Callable[[], None]:
    """A call that fills the caches with other things after a rest."""
    other = bytearray(OTHER_BYTES)

    def forget() -> None:
        sleep(REST_S)
        other[:] = other[::-1]

    return forget
