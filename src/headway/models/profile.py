"""What was measured of a model and of the machine it runs on: the contract between profiler and cost tables.

Seconds are keyed by width, the number of threads of a lane or of several lanes together. Profiles hold no
time stamps: the same measurements give the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from typing import Any, Final, TypeVar

from headway.core.errors import HeadwayError
from headway.models.block_work import BlockWork

FORMAT: Final = 2
"""Version of the files. A file of another version is refused, and whoever cached it measures again."""

_P = TypeVar("_P", "ModelProfile", "DeviceProfile")


@dataclass(frozen=True, slots=True)
class Timing:
    """Repeated measurements of one duration, in seconds; `samples_s` are in the order they were taken."""

    median_s: float
    p95_s: float
    samples_s: tuple[float, ...]

    @classmethod
    def of(cls, samples_s: Iterable[float]) -> Timing:
        """Summarise samples. The 95th percentile is the least sample that 95 % of them do not exceed.

        Raises ValueError if there are none.
        """
        samples = tuple(samples_s)
        if not samples:
            raise ValueError("a timing needs at least one sample")
        rank = -(-95 * len(samples) // 100)
        return cls(median(samples), sorted(samples)[rank - 1], samples)


@dataclass(frozen=True, slots=True)
class BlockProfile:
    """One block: `seconds` alone on the machine by width, and the bytes that cross the cut at its end.

    `cut_bytes` is None where a tensor's size is not known. `work` is what it computes and moves; None for
    blocks that come from no graph. `slowdowns` are by how much it takes longer beside each probe, by the
    probe's name; empty if it was not probed. `batch_seconds` are those of several requests together, by how
    many and then by width; empty where requests run one by one only.
    """

    name: str
    content_hash: str
    cut_bytes: int | None
    operators: tuple[str, ...]
    seconds: Mapping[int, Timing]
    work: BlockWork | None = None
    slowdowns: Mapping[str, float] = field(default_factory=dict)
    batch_seconds: Mapping[int, Mapping[int, Timing]] = field(default_factory=dict)

    def of_batch(self, size: int) -> BlockProfile:
        """The block run by so many requests together: between two measured sizes on the line through them."""
        known = {1: self.seconds, **self.batch_seconds}
        above = min(each for each in known if each >= size)
        below = max(each for each in known if each <= size)
        part = (size - below) / (above - below) if above > below else 0.0
        seconds = {
            width: Timing.of([(1.0 - part) * timing.median_s + part * known[above][width].median_s])
            for width, timing in known[below].items()
        }
        return replace(self, seconds=seconds, batch_seconds={})


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """A model as it was measured.

    `positions` are where the prepared graph was cut, so that the same blocks can be made again.
    `whole_seconds` are of the uncut model; `boundary_share` is how much longer the chain of blocks takes, as
    a share of it (0.03: three percent; noise may make it negative). `private_bytes` is memory that the
    sessions of a width took for themselves, copies that prepacking makes included; None where the system
    does not tell. `intake_s` is what all of it took. `machine` and `runtime` say where the numbers hold.
    `unsteady` says by what it showed that the machine was busy with other work meanwhile, if it was: such
    times are too long, and worth measuring again.
    """

    model: str
    content_hash: str
    machine: str
    runtime: str
    positions: tuple[int, ...]
    blocks: tuple[BlockProfile, ...]
    whole_seconds: Mapping[int, Timing]
    boundary_share: Mapping[int, float]
    private_bytes: Mapping[int, int | None]
    intake_s: float
    notes: tuple[str, ...] = ()
    unsteady: str = ""

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths that were measured, ascending."""
        return tuple(sorted(self.whole_seconds))

    @property
    def most_batch(self) -> int:
        """How many requests may run together, by the largest batch that was measured; 1 if none was."""
        return max((size for block in self.blocks[:1] for size in block.batch_seconds), default=1)

    def of_batch(self, size: int) -> ModelProfile:
        """The model run by so many requests together, as if that were one request of another model.

        Raises ValueError for more than were measured together.
        """
        if not 1 <= size <= self.most_batch:
            raise ValueError(f"{self.model}: a batch of {size}; accepted: from 1 to {self.most_batch}")
        return replace(self, blocks=tuple(block.of_batch(size) for block in self.blocks))

    def seconds(self, width: int) -> tuple[float, ...]:
        """Median seconds of each block. Raises HeadwayError for a width that was not measured."""
        if width not in self.whole_seconds:
            known = ", ".join(map(str, self.widths))
            raise HeadwayError(f"{self.model}: not profiled with {width} threads; accepted: {known}")
        return tuple(block.seconds[width].median_s for block in self.blocks)

    def to_json(self) -> str:
        """The profile as JSON text with the format's version."""
        return _dump(self)

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "model profile") -> ModelProfile:
        """Read what `to_json` wrote.

        Raises HeadwayError, beginning with `where`, for text that is not a profile of this format.
        """
        return _load(cls, text, where)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """What running costs on this machine beside the blocks themselves.

    `dispatch_s` is what passes before a run's first block and after its last, together: waking, deciding,
    handing over, on a lane that was idle for `cold_after_s` or more. On one that was busy until just before
    it is `warm_dispatch_s`; None if that was not measured. `switch_s` is what a block takes longer after
    another model's than after its own. `overlap_w` is the overlap loss of two narrow lanes: together they
    take max + w * min of their solo times. `threads` is how many threads all lanes have together.
    """

    machine: str
    runtime: str
    threads: int
    dispatch_s: float
    switch_s: float
    overlap_w: float
    warm_dispatch_s: float | None = None
    cold_after_s: float = 0.0

    def to_json(self) -> str:
        """The profile as JSON text with the format's version."""
        return _dump(self)

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "device profile") -> DeviceProfile:
        """Read what `to_json` wrote.

        Raises HeadwayError, beginning with `where`, for text that is not a profile of this format.
        """
        return _load(cls, text, where)


def _dump(profile: ModelProfile | DeviceProfile) -> str:
    import json

    body = _adapters()[type(profile)].dump_python(profile, mode="json")
    return json.dumps({"format": FORMAT, "profile": body}, indent=1, allow_nan=False)


def _load(kind: type[_P], text: str | bytes, where: str) -> _P:
    import json

    from pydantic import ValidationError

    try:
        data = json.loads(text)
    except ValueError as error:
        raise HeadwayError(f"{where}: not JSON ({error}); accepted: a profile that headway wrote") from None
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise HeadwayError(f"{where}: format {found!r}; accepted: {FORMAT}")
    try:
        profile: _P = _adapters()[kind].validate_python(data.get("profile"))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "profile"
        raise HeadwayError(f"{where}: {place}: {first['msg']}") from None
    return profile


@lru_cache(maxsize=1)
def _adapters() -> dict[type, Any]:
    from pydantic import TypeAdapter

    return {kind: TypeAdapter(kind) for kind in (ModelProfile, DeviceProfile)}
