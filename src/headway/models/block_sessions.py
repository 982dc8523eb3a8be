"""One ONNX Runtime session for each block of a split model, and running them on a request's buffers."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headway.models.boundary_buffers import Buffers
from headway.models.runtime_session import SessionSettings, open_session, run_failure
from headway.models.value_types import ValueType

if TYPE_CHECKING:
    from headway.models.chain import SplitModel

_IDENTITIES: Final = itertools.count()

BRIEF_SPINNING: Final = (("session.force_spinning_stop", "1"), ("session.intra_op.spin_duration_us", "50"))
"""Threads of a session wait for the next operator awake, since to be woken takes longer than many operators;
but not between two blocks, nor (where ONNX Runtime knows the second entry) for longer than this."""


@dataclass(frozen=True, slots=True)
class BlockModel:
    """One block of a split model: an ONNX file that runs by itself, its weights beside it.

    `inputs` are made by earlier blocks, `request_inputs` are brought by the request; `overridable` are
    weights here that a request may replace. `outputs` go to later blocks or are results. `crossing_bytes`
    cross the cut at its end, `live_bytes` count what the request then holds besides (inputs still needed,
    results already made); None where a size is not known.
    """

    index: int
    name: str
    path: Path
    first_node: int
    end_node: int
    inputs: tuple[str, ...]
    request_inputs: tuple[str, ...]
    overridable: tuple[str, ...]
    outputs: tuple[str, ...]
    crossing_bytes: int | None
    live_bytes: int | None
    content_hash: str
    ops: tuple[str, ...]  # of its nodes, in order


class BlockSessions:
    """Sessions for all blocks of a split model with a fixed number of threads each.

    Several may be open for one model (a wide lane and narrow ones); they read the same weights. `run_block`
    may be called from several threads at once, on different buffers. `private_bytes` is the memory that
    opening took for these sessions alone: weights that kernels copied to pack them, and pools of threads;
    None where the system does not tell.
    """

    def __init__(self, split: SplitModel, threads: int, *, spinning: bool = False) -> None:
        self.split = split
        self.threads = threads
        self.identity = next(_IDENTITIES)
        briefly = threads > 1 and not spinning
        settings = SessionSettings(
            threads=threads,
            optimise=not split.optimised,
            spinning=spinning or briefly,
            shared_arena=True,
            entries=BRIEF_SPINNING if briefly else (),
            profile_prefix=split.profile_prefix,
        )
        before = _private_bytes()
        self._sessions = [
            open_session(block.path, settings, where=f"{split.where}: {block.name}")
            if block.outputs
            else None
            for block in split.blocks
        ]
        after = _private_bytes()
        self.private_bytes: int | None = None if before is None or after is None else max(0, after - before)
        self._ports = tuple(_ports(block, split.types) for block in split.blocks)

    def run_block(self, index: int, buffers: Buffers, options: Any = None) -> None:
        """Run one block on a request's buffers; the blocks before it must have run on them.

        Args:
            index: of the block.
            buffers: from `SplitModel.bind`.
            options: onnxruntime.RunOptions; setting its `terminate` from another thread stops the run.

        Raises:
            HeadwayError: ONNX Runtime failed or was stopped; the buffers may be used for another request.
        """
        block = self.split.blocks[index]
        session = self._sessions[index]
        if session is None:
            return
        try:
            if buffers.bound:
                self._run_bound(session, index, buffers, options)
            else:
                feeds = {name: buffers.values[name] for name in block.inputs}
                brought = (*block.request_inputs, *block.overridable)
                feeds.update((name, buffers.inputs[name]) for name in brought if name in buffers.inputs)
                results = session.run(list(block.outputs), feeds, options)
                buffers.values.update(zip(block.outputs, results, strict=True))
        except Exception as error:
            # ONNX Runtime's exceptions have no common base class but this one.
            raise run_failure(error, f"{self.split.where}: {block.name}") from error

    def run(self, buffers: Buffers, options: Any = None) -> None:
        """Run all blocks in order.

        Raises:
            HeadwayError: as `run_block`.
        """
        for index in range(len(self._sessions)):
            self.run_block(index, buffers, options)

    def end_profiling(self) -> tuple[Path, ...]:
        """Files with what nodes took, one a session, by ONNX Runtime's profiler; none if it is off."""
        if not self.split.profile_prefix:
            return ()
        return tuple(Path(session.end_profiling()) for session in self._sessions if session is not None)

    def close(self) -> None:
        """Give the sessions' memory and threads back; blocks run no more in these sessions."""
        self._sessions = [None] * len(self._sessions)
        self.split.forget(self)

    def _run_bound(self, session: Any, index: int, buffers: Buffers, options: Any) -> None:
        ports = self._ports[index]
        key = (self.identity, index)
        binding, turn = buffers.bindings.get(key, (None, 0))
        if binding is None:
            binding = session.io_binding()
            for name in ports.fixed_inputs:
                binding.bind_ortvalue_input(name, buffers.values[name])
            for name in ports.fixed_outputs:
                binding.bind_ortvalue_output(name, buffers.values[name])
        if turn != buffers.turn:
            for name in ports.request_inputs:
                if name in buffers.inputs:
                    binding.bind_ortvalue_input(name, buffers.values[name])
            for name in buffers.renewed:
                if name in ports.fixed_inputs:
                    binding.bind_ortvalue_input(name, buffers.values[name])
                elif name in ports.fixed_outputs:
                    binding.bind_ortvalue_output(name, buffers.values[name])
            buffers.bindings[key] = (binding, buffers.turn)
        for name in ports.open_inputs:
            binding.bind_ortvalue_input(name, buffers.values[name])
        for name in ports.open_outputs:
            binding.bind_output(name)  # anew, or the last run's value would be written over
        session.run_with_iobinding(binding, options)
        if ports.open_outputs:
            made = binding.get_outputs()[len(ports.fixed_outputs) :]
            buffers.values.update(zip(ports.open_outputs, made, strict=True))


@dataclass(frozen=True, slots=True)
class _Ports:
    """How a block's tensors are bound: to buffers, to the request's arrays, or anew in each run."""

    request_inputs: tuple[str, ...]
    fixed_inputs: tuple[str, ...]
    open_inputs: tuple[str, ...]
    fixed_outputs: tuple[str, ...]
    open_outputs: tuple[str, ...]


def _ports(block: BlockModel, types: Mapping[str, ValueType]) -> _Ports:
    return _Ports(
        request_inputs=(*block.request_inputs, *block.overridable),
        fixed_inputs=tuple(name for name in block.inputs if types[name].bindable),
        open_inputs=tuple(name for name in block.inputs if not types[name].bindable),
        fixed_outputs=tuple(name for name in block.outputs if types[name].bindable),
        open_outputs=tuple(name for name in block.outputs if not types[name].bindable),
    )


def _private_bytes() -> int | None:
    """Memory of this process that is backed by no file, or None where the system does not tell."""
    _return_freed_memory()
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), None)


def _return_freed_memory() -> None:
    # The C library keeps what is freed: without this, memory that loading used for a moment would count.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
