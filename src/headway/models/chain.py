"""A model as a chain of blocks that run one after the other and give what the whole model gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headway.core.errors import HeadwayError
from headway.models.block_sessions import BlockModel, BlockSessions
from headway.models.boundary_buffers import BufferPlan, Buffers, checked_inputs, plan_buffers
from headway.models.runtime_session import TimeLimit
from headway.models.sample_inputs import Inputs, sample_inputs
from headway.models.value_types import ValueType
from headway.models.weight_store import Workspace
from headway.models.whole_model import WholeModel


@dataclass(frozen=True, eq=False)
class SplitModel:
    """A model's blocks. It can be sent to another process by pickling, while this one keeps its files.

    `reason` says why there is only one block, or which limit could not be kept; `notes` say what else was
    noticed. `bound` tells whether boundary tensors lie in buffers that are reused; strings, optional
    values, and sequences among the inputs or outputs go through Python instead, and so then does the whole
    chain. `node_s` are the seconds of each node that the cuts were chosen by, none if cuts were given.

    A model that was prepared for batches has `rows`, as PreparedModel has them; `batch` is for how many
    requests together its types and buffers are. Sessions write what nodes take to files whose paths begin
    with `profile_prefix`, if there is one, until `BlockSessions.end_profiling`.
    """

    name: str
    where: str
    content_hash: str
    blocks: tuple[BlockModel, ...]
    optimised: bool
    bound: bool
    reason: str
    notes: tuple[str, ...]
    inputs: Mapping[str, ValueType]
    overridable: Mapping[str, ValueType]
    outputs: tuple[str, ...]
    types: Mapping[str, ValueType]
    random_nodes: tuple[str, ...]
    sample_shapes: Mapping[str, tuple[int, ...]]
    whole: WholeModel
    plan: BufferPlan
    node_s: tuple[float, ...]
    workspace: Workspace
    constants: Mapping[str, Any] = field(repr=False)
    rows: Mapping[str, int] = field(default_factory=dict)
    batch: int = 1
    profile_prefix: str = ""
    _pool: list[Buffers] = field(default_factory=list, repr=False)
    _open: set[int] = field(default_factory=set, repr=False)
    _batches: dict[int, SplitModel] = field(default_factory=dict, repr=False)

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the graph is cut: nodes before each cut, in topological order."""
        return tuple(block.first_node for block in self.blocks[1:])

    @property
    def expected_s(self) -> tuple[float, ...]:
        """Seconds that each block should take by `node_s`; none if cuts were given."""
        if not self.node_s:
            return ()
        return tuple(sum(self.node_s[block.first_node : block.end_node]) for block in self.blocks)

    def sample(self, seed: int = 0) -> dict[str, Any]:
        """Made-up inputs of the right types; sizes left open take the reader's defaults."""
        return sample_inputs(self.inputs, self.sample_shapes, seed=seed)

    def of_batch(self, size: int) -> SplitModel:
        """The same blocks on buffers for so many requests together, which the same sessions run.

        Raises:
            HeadwayError: the model was not prepared for batches.
        """
        if size == self.batch:
            return self
        if not self.rows:
            raise HeadwayError(
                f"{self.where}: a batch of {size} requests; accepted: 1, larger ones in the model"
            )
        found = self._batches.get(size)
        if found is None:
            types = {
                name: value.with_rows(size * self.rows[name]) if name in self.rows else value
                for name, value in self.types.items()
            }
            lives = [
                (each.name, types[each.name], each.made_in, each.last_used_in) for each in self.plan.slots
            ]
            found = self._batches[size] = replace(
                self,
                inputs={name: types[name] for name in self.inputs},
                types=types,
                plan=plan_buffers(lives, self.plan.taken_over),
                batch=size,
                _pool=[],
                _batches={},
            )
        return found

    def bind_batch(self, requests: Sequence[Inputs]) -> Buffers:
        """Take buffers for several requests together; their inputs are copied, once, one after the other.

        Raises:
            HeadwayError: as `bind` and `of_batch`.
        """
        import numpy as np

        checked = [checked_inputs(each, self.inputs, {}, self.where) for each in requests]
        joint = {name: np.concatenate([each[name] for each in checked]) for name in self.inputs}
        return self.of_batch(len(requests)).bind(joint)

    def regroup(
        self, block: int, requests: Sequence[Inputs], parts: Sequence[tuple[Buffers, int]]
    ) -> Buffers:
        """Buffers for requests that stand before a block in others, each at a position there, and go on
        together; what later blocks need of it is copied."""
        buffers = self.bind(requests[0]) if len(requests) == 1 else self.bind_batch(requests)
        for slot in self.plan.slots:
            if slot.made_in < block <= slot.last_used_in:
                target = buffers.array(slot.name)
                count = self.rows.get(slot.name)
                if count is None:
                    target[...] = parts[0][0].array(slot.name)
                    continue
                for at, (source, position) in enumerate(parts):
                    rows = source.array(slot.name)[position * count : (position + 1) * count]
                    target[at * count : (at + 1) * count] = rows
        return buffers

    def finish_batch(self, buffers: Buffers, size: int) -> list[dict[str, Any]]:
        """Results of each of several requests whose blocks have all run, as views of copies."""
        made = self.of_batch(size).finish(buffers)
        return [
            {
                name: value[at * self.rows[name] : (at + 1) * self.rows[name]] if name in self.rows else value
                for name, value in made.items()
            }
            for at in range(size)
        ]

    def open(self, threads: int = 1, *, spinning: bool = False) -> BlockSessions:
        """Open a session for every block.

        Args:
            threads: intra-op threads of each session, the calling one included.
            spinning: let idle threads spin for as long as they like; without it they do so for some
                microseconds within a block, so that the processor is there for other lanes.

        Raises:
            HeadwayError: ONNX Runtime refuses a block.
        """
        sessions = BlockSessions(self, threads, spinning=spinning)
        self._open.add(sessions.identity)
        return sessions

    def bind(self, inputs: Inputs) -> Buffers:
        """Take buffers from the pool for a request with these inputs.

        Arrays are bound, not copied: leave them alone until the last block has run.

        Raises:
            HeadwayError: an input is missing, unknown, or of another type or shape.
        """
        checked = checked_inputs(inputs, self.inputs, self.overridable, self.where)
        try:
            buffers = self._pool.pop()  # other threads may take and give back meanwhile
        except IndexError:
            buffers = Buffers(self.plan, self.bound)
        buffers.start(checked, self.types)
        return buffers

    def finish(self, buffers: Buffers) -> dict[str, Any]:
        """Results of a request whose blocks have all run, as copies; its buffers go back to the pool."""
        results = {
            name: self.constants[name].copy()
            if name in self.constants and name not in buffers.inputs
            else buffers.output(name)
            for name in self.outputs
        }
        self.release(buffers)
        return results

    def release(self, buffers: Buffers) -> None:
        """Give back the buffers of a request that ends without results."""
        if any(name in self.overridable for name in buffers.inputs):
            return  # its bindings hold weights that were this request's alone
        for key in [key for key in buffers.bindings if key[0] not in self._open]:
            del buffers.bindings[key]
        self._pool.append(buffers)

    def forget(self, sessions: BlockSessions) -> None:
        """Drop what idle buffers keep for sessions that are closed."""
        self._open.discard(sessions.identity)
        for buffers in (*self._pool, *(buffers for each in self._batches.values() for buffers in each._pool)):
            for key in [key for key in buffers.bindings if key[0] == sessions.identity]:
                del buffers.bindings[key]

    def run(self, inputs: Inputs, threads: int = 1) -> dict[str, Any]:
        """Open sessions, run the chain once, and close them: for checks, not for speed.

        Raises:
            HeadwayError: inputs that do not fit, or a block that fails or runs for ever.
        """
        sessions = self.open(threads)
        try:
            buffers = self.bind(inputs)
            with TimeLimit() as limit:
                sessions.run(buffers, limit.options)
            return self.finish(buffers)
        finally:
            sessions.close()

    def __getstate__(self) -> dict[str, Any]:
        mappings = ("inputs", "overridable", "types", "constants", "sample_shapes", "rows")
        state = {name: dict(value) if name in mappings else value for name, value in self.__dict__.items()}
        return {**state, "_pool": [], "_open": set(), "_batches": {}}
