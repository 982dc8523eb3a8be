"""ONNX Runtime sessions on the CPU: their options, and what it refuses said in a user's terms."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headway.core.errors import HeadwayError
from headway.models.node_order import bodies_of, node_label

if TYPE_CHECKING:
    from onnx import NodeProto

_PREFIX: Final = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : (Load model from \S+ failed:\s*)?")
_UNREGISTERED: Final = re.compile(
    r"(?:Fatal error: )?([\w.\-]*):(\w+)\(-?\d+\) is not a registered function/op"
)
_NO_SCHEMA: Final = re.compile(r"No Op registered for (\w+) with domain_version of")
_NO_KERNEL: Final = re.compile(r"Could not find an implementation for (?:([\w.\-]+)[.:])?(\w+)\(\d+\)")
RUN_LIMIT_S: Final = 60.0
"""How long a whole model may run while it is taken in: a hundred times what a large one takes."""

_QUIET: Final = 4  # errors are raised, and need not be printed too


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a session is opened.

    `threads` is the number of intra-op threads, the caller's own included. Without `spinning` idle threads
    sleep, so that other lanes get the processor. `optimise` applies all of ONNX Runtime's graph
    optimisations. With `shared_arena` a session takes scratch memory from an arena of the process in place
    of its own: the blocks of a chain then work in the same memory, which is still in the cache. Measured,
    that halves what boundaries
    cost: 1.17 to 1.08 of the whole for MobileNetV2 in 15 blocks on two threads, 1.05 to 1.02 on one.
    """

    threads: int = 1
    optimise: bool = True
    spinning: bool = False
    shared_arena: bool = False
    profile_prefix: str = ""
    entries: tuple[tuple[str, str], ...] = ()
    optimised_path: str = ""


def session_options(settings: SessionSettings) -> Any:
    """ONNX Runtime's own options object for these settings."""
    import onnxruntime

    if settings.threads < 1:
        raise HeadwayError(f"threads = {settings.threads}; accepted: a whole number from 1 on")
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if settings.optimise else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _QUIET
    if not settings.spinning:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if settings.shared_arena:
        _register_arena()
        options.add_session_config_entry("session.use_env_allocators", "1")
    for key, value in settings.entries:
        options.add_session_config_entry(key, value)
    if settings.profile_prefix:
        options.enable_profiling = True
        options.profile_file_prefix = settings.profile_prefix
    if settings.optimised_path:
        options.optimized_model_filepath = settings.optimised_path
    return options


@cache
def _register_arena() -> None:
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    # A program around this one may have registered its own before; sessions then share that.
    with suppress(onnxruntime.capi.onnxruntime_pybind11_state.Fail, RuntimeError):
        onnxruntime.create_and_register_allocator(memory, None)


def open_session(
    path: Path, settings: SessionSettings, *, where: str, nodes: Iterable[NodeProto] = ()
) -> Any:
    """Open a session for the model file at `path`.

    Args:
        path: the model; its external data lies beside it.
        settings: threads and the like.
        where: how messages name the model.
        nodes: the model's nodes, so that a message can name the one that is refused.

    Raises:
        HeadwayError: ONNX Runtime refuses the model; an operator it does not know is named with its domain.
    """
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(
            str(path), session_options(settings), providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except HeadwayError:
        raise
    except Exception as error:
        # ONNX Runtime's exceptions have no common base class but this one.
        raise HeadwayError(f"{where}: {_refusal(str(error), list(nodes))}") from error


def run_options() -> Any:
    """Options by which a run can be stopped, for one run or several.

    ONNX Runtime's Python part asks each run's options whether a GPU's graph is captured, which ends in an
    exception, and that in 40 us of its own, where they do not say (version 1.32); so they say.
    """
    import onnxruntime

    options = onnxruntime.RunOptions()
    options.add_run_config_entry("gpu_graph_id", "-1")
    return options


class TimeLimit:
    """Ends a run that takes too long, between two of its operators; for `with`.

    `options` go into the run. While it lasts Python heeds no signal, so that without a limit a model that
    loops for ever could not even be interrupted.
    """

    def __init__(self, seconds: float = RUN_LIMIT_S) -> None:
        self.seconds = seconds
        self.options = run_options()
        self.expired = False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> TimeLimit:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _expire(self) -> None:
        self.expired = True
        self.options.terminate = True


def run_failure(error: Exception, where: str, limit: TimeLimit | None = None) -> HeadwayError:
    """What a failed run is to the user."""
    if limit is not None and limit.expired:
        return HeadwayError(f"{where}: ran for more than {limit.seconds:g} s on made-up or given inputs")
    return HeadwayError(f"{where}: ONNX Runtime could not run it: {_plain(str(error))}")


def _refusal(message: str, nodes: list[NodeProto]) -> str:
    plain = _plain(message)
    domain = op = None
    if found := _UNREGISTERED.search(plain):
        domain, op = found.group(1), found.group(2)
    elif found := _NO_SCHEMA.search(plain):
        domain, op = "", found.group(1)
    elif found := _NO_KERNEL.search(plain):
        domain, op = found.group(1), found.group(2)
    if op is None:
        return f"ONNX Runtime refuses the model: {plain}"
    for index, node in enumerate(_all_nodes(nodes)):
        if node.op_type == op and (domain is None or node.domain == domain):
            shown = node.domain or "ai.onnx"
            return (
                f"{node_label(node, index)}: ONNX Runtime has no operator {op!r} of domain {shown!r} "
                f"for these types, so the model cannot run here ({plain})"
            )
    return f"ONNX Runtime has no operator {op!r} of domain {domain or 'ai.onnx'!r} ({plain})"


def _all_nodes(nodes: Iterable[NodeProto]) -> Iterable[NodeProto]:
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _all_nodes(body.node)


def _plain(message: str) -> str:
    return " ".join(_PREFIX.sub("", message).split())
