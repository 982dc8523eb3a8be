"""Seconds of each node of a prepared model: estimated, profiled by ONNX Runtime, or from measured blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from headway.core.errors import HeadwayError
from headway.models.node_work import NodeWork, node_works
from headway.models.prepared import PreparedModel
from headway.models.runtime_session import SessionSettings, TimeLimit, open_session, run_failure
from headway.models.sample_inputs import Inputs

# Orders of magnitude for one core of a server processor; only ratios between nodes matter once times are
# measured.
_MACS_PER_S: Final = 30e9
_OPS_PER_S: Final = 3e9
_BYTES_PER_S: Final = 8e9
_NODE_S: Final = 3e-6  # calling a kernel


def estimated_node_s(
    prepared: PreparedModel, threads: int = 1, works: Sequence[NodeWork] | None = None
) -> tuple[float, ...]:
    """Seconds of each node from its arithmetic and bytes, whichever is slower, plus the call of its kernel.

    Nothing is run, so the answer is the same every time. Nodes that only give a tensor another shape cost
    their call. `works` are those of `node_works`, if they are known already.
    """
    known = node_works(prepared) if works is None else works
    return tuple(_NODE_S + (0.0 if work.view else _kernel_s(work, threads)) for work in known)


def profiled_node_s(
    prepared: PreparedModel,
    threads: int = 1,
    *,
    runs: int = 3,
    inputs: Inputs | None = None,
    before_run: Callable[[], None] | None = None,
) -> tuple[float, ...]:
    """Seconds of each node on this machine by ONNX Runtime's profiler: the least of `runs` runs.

    One run more comes first to warm up. The least is what a node takes undisturbed; other work on the machine
    only ever adds to it, and to single nodes at random. `before_run` is called before each run.

    Raises:
        HeadwayError: the model does not run on these inputs.
    """
    folder = prepared.workspace.folder
    path = folder / "profiled.onnx"
    path.write_bytes(prepared.graph.model.SerializeToString())
    session = open_session(
        path,
        SessionSettings(threads=threads, optimise=False, profile_prefix=str(folder / "profile")),
        where=prepared.where,
        nodes=prepared.graph.nodes,
    )
    path.unlink()
    made_up = (prepared.sample(integer=integer) for integer in (0, 1))
    for feeds in made_up if inputs is None else (dict(inputs),):
        failure = _failure(session, feeds, runs + 1, prepared.where, before_run)
        if failure is None:
            break
    profile = folder / session.end_profiling()
    times = read_node_s(profile, prepared, runs)
    if failure is not None:
        raise failure
    return times


def _failure(
    session: Any, feeds: dict[str, Any], runs: int, where: str, before_run: Callable[[], None] | None
) -> HeadwayError | None:
    for _ in range(runs):
        if before_run is not None:
            before_run()
        try:
            with TimeLimit() as limit:
                session.run(None, feeds, limit.options)
        except Exception as error:
            # ONNX Runtime's exceptions have no common base class but this one.
            return run_failure(error, where, limit)
    return None


def node_s_from_blocks(
    node_s: Sequence[float], positions: Sequence[int], block_s: Sequence[float]
) -> tuple[float, ...]:
    """Node times rescaled so that the nodes of each block add up to what the block was measured to take.

    Args:
        node_s: the times that the blocks were made with.
        positions: where the model was cut.
        block_s: measured seconds of each block.

    Raises:
        HeadwayError: the number of blocks does not fit the positions.
    """
    bounds = (0, *positions, len(node_s))
    if len(block_s) != len(bounds) - 1:
        raise HeadwayError(
            f"block_s has {len(block_s)} times; accepted: one for each of {len(bounds) - 1} blocks"
        )
    scaled: list[float] = []
    for first, end, measured in zip(bounds, bounds[1:], block_s, strict=False):
        part = node_s[first:end]
        total = sum(part)
        scaled += [seconds * measured / total if total else measured / len(part) for seconds in part]
    return tuple(scaled)


def _kernel_s(work: NodeWork, threads: int) -> float:
    compute_s = (work.macs / _MACS_PER_S + work.vector_ops / _OPS_PER_S) / threads
    return max(compute_s, work.moved_bytes / _BYTES_PER_S)


def read_node_s(path: Path, prepared: PreparedModel, runs: int) -> tuple[float, ...]:
    """Seconds of each node, the least of the last `runs` runs in a file of ONNX Runtime's profiler, which is
    removed; 0 for a node that is not in it."""
    events = json.loads(path.read_text())
    path.unlink()
    times: dict[str, list[float]] = {}
    for event in events:
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            times.setdefault(name.removesuffix("_kernel_time"), []).append(1e-6 * event["dur"])
    return tuple(
        min(times[node.name][-runs:]) if node.name in times else 0.0 for node in prepared.graph.nodes
    )
