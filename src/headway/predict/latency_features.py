"""What of a kernel its efficiency is learned from: logarithms of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headway.models.node_work import NodeWork

LATENCY_FEATURES: Final = (
    "log_flops",
    "log_moved_bytes",
    "log_weight_bytes",
    "log_output_elements",
    "log_m",
    "log_n",
    "log_k",
    "log_repeats",
    "log_window",
    "log_steps",
    "log_vector_ops_each",
    "log_read_over_written",
    "log_model_weight_bytes",
    "blocked",
)
"""Columns of `node_table`: log(1 + size), so that a size of 0 has a place too, and one of 0 or 1."""


def node_table(works: Sequence[NodeWork]) -> NDArray[np.float64]:
    """Features of all nodes of one model, one a row.

    The weights of the whole model decide from which cache they come when the model runs again.
    """
    import numpy as np

    total = sum(work.weight_bytes for work in works)
    raw = np.array(
        [
            (
                work.flops,
                work.moved_bytes,
                work.weight_bytes,
                work.output_elements,
                work.m,
                work.n,
                work.k,
                work.repeats,
                work.window,
                work.steps,
                work.vector_ops / max(1, work.output_elements),
                work.read_bytes / max(1, work.written_bytes),
                total,
                0.0,
            )
            for work in works
        ],
        dtype=float,
    ).reshape(len(works), len(LATENCY_FEATURES))
    logs: NDArray[np.float64] = np.log1p(raw)
    logs[:, LATENCY_FEATURES.index("blocked")] = [work.blocked for work in works]
    return logs


def roof_s(
    works: Sequence[NodeWork], flops_s: float, bandwidth_bytes_s: float, launch_s: float
) -> NDArray[np.float64]:
    """Seconds of each kernel by the roofline: the slower of computing and moving, and its launch."""
    import numpy as np

    flops = np.array([work.flops for work in works], dtype=float)
    moved = np.array([work.moved_bytes for work in works], dtype=float)
    bound: NDArray[np.float64] = launch_s + np.maximum(flops / flops_s, moved / bandwidth_bytes_s)
    return bound
