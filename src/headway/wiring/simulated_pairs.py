"""Pairs of segments of the zoo's models on a simulated GPU, for evaluating overlap predictors without one.

Times alone and what blocks ask for are those that Headway predicts for the GPU. What they do to each other
follows one of two rules, with a hidden part that nobody is told (`headway.sim.pairs`):

- `fluid`: the rule from which belief starts, so that it is right but for the hidden part;
- `soft`: segments disturb each other before anything is full, by the 3-norm of 1 and what both ask of
  compute, memory and occupancy, relative to that norm alone. No predictor is told of this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headway.config import StreamHardware
from headway.core.block import Segment
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost.contention import PairLoss, fluid_loss
from headway.cost.lanes import LaneTable
from headway.models import load_model
from headway.models.reading import zoo_model
from headway.predict.group import operator_counts
from headway.predict.joint import Part, two_ends
from headway.predict.pairs import LEAST_RATIO, Member, Pairs
from headway.predict.splits import Splits, zoo_options
from headway.sim.pairs import HiddenLoss
from headway.wiring.streams import stream_table
from headway.workload.draws import stream

if TYPE_CHECKING:
    import numpy as np

RULES: Final = ("fluid", "soft")
ROUNDS: Final = 3
DEVIATION: Final = 0.1
MEETING_NOISE: Final = 0.03
"""Of w, from round to round."""

NOISE: Final = 0.02
"""Of times, as a standard deviation of the logarithm."""

_NORM: Final = 3.0
_BATCHES_EACH: Final = (2, 1)  # of those that are taught and of those left out, for each model
_TRIES: Final = 20


def simulated_pairs(
    rule: str,
    gpu: str,
    count: int,
    splits: Splits,
    seed: int,
    on_model: Callable[[str], None] = lambda words: None,
) -> Pairs:
    """Draw pairs of segments and simulate them alone and together, three rounds.

    A segment is a suffix, a prefix, the whole or an inner range of a model, each as often; both members of a
    pair are drawn alike. Each model comes at two batches that are taught and one that is left out. A member
    takes at least a tenth of the other's time.

    Args:
        rule: one of RULES.
        gpu: a GPU that the latency predictor knows.
        count: how many pairs.
        splits: which models and batches.
        seed: of all draws.
        on_model: told of each model before it is predicted.

    Raises:
        HeadwayError: an unknown rule or GPU.
    """
    import numpy as np

    if rule not in RULES:
        raise HeadwayError(f"rule {rule!r}; accepted: {', '.join(RULES)}")
    hardware = StreamHardware.model_validate({"name": "gpu", "gpu": gpu, "block": "1 ms"})
    device = hardware.device()
    models = [
        _Model(model, family, batch, _table(model, batch, hardware, device, on_model))
        for family, names in splits.families.items()
        for model in names
        for batch in _batches(model, splits, seed)
    ]
    base = fluid_loss if rule == "fluid" else soft_loss
    truth = HiddenLoss(base, DEVIATION, partial(stream, seed, "overlap"))
    rng = stream(seed, "pairs")
    members: list[tuple[Member, Member]] = []
    rounds: list[Any] = []
    fluid: list[float] = []
    while len(members) < count:
        one, other = (models[int(at)] for at in rng.integers(len(models), size=2))
        for _ in range(_TRIES):
            ranges = one.drawn(rng), other.drawn(rng)
            alone = one.seconds(*ranges[0]), other.seconds(*ranges[1])
            if min(alone) >= LEAST_RATIO * max(alone):
                break
        else:
            continue  # one of the two is too long beside the other
        together_s = _together_s(one, ranges[0], other, ranges[1], truth)
        members.append((one.member(*ranges[0]), other.member(*ranges[1])))
        fluid_s = _together_s(one, ranges[0], other, ranges[1], fluid_loss)
        fluid.append(max(0.0, fluid_s - max(alone)) / min(alone))
        chance = rng.standard_normal(ROUNDS) * MEETING_NOISE * min(alone)
        stray = np.exp(NOISE * rng.standard_normal((ROUNDS, 3)))
        rounds.append(
            [
                [alone[0] * own[0], alone[1] * own[1], max(together_s + more, max(alone)) * own[2]]
                for own, more in zip(stray.tolist(), chance.tolist(), strict=True)
            ]
        )
    return Pairs.of(members, rounds, fluid)


def soft_loss(first: Segment, second: Segment) -> float:
    """The loss w of two segments that disturb each other before anything is full."""
    one, other = first.pressure, second.pressure
    if one is None or other is None:
        return 0.0
    first_s, second_s = first.compute_s, second.compute_s
    asked = (one.compute, one.memory, one.occupancy), (other.compute, other.memory, other.occupancy)
    both = _norm([mine + theirs for mine, theirs in zip(*asked, strict=True)])
    one_stretch, other_stretch = both / _norm(asked[0]), both / _norm(asked[1])
    together_s = min(first_s * one_stretch, second_s * other_stretch)
    left_s = max(first_s - together_s / one_stretch, second_s - together_s / other_stretch)
    return max(0.0, together_s + left_s - max(first_s, second_s)) / min(first_s, second_s)


def _norm(asked: Sequence[float]) -> float:
    return float((1.0 + sum(each**_NORM for each in asked)) ** (1.0 / _NORM))


class _Model:
    """A model of the zoo at a batch, on the GPU."""

    def __init__(self, name: str, family: str, batch: int, table: LaneTable) -> None:
        self._name, self._family, self._batch = name, family, batch
        self._operators = [operator_counts(operators) for operators in table.operators]
        self.segments = table.blocks_on(1)
        self.block_s = [segment.compute_s for segment in self.segments]

    def drawn(self, rng: np.random.Generator) -> tuple[int, int]:
        """First block and end of a random segment."""
        count = len(self.segments)
        first, end = sorted(rng.integers(0, count + 1, 2).tolist())
        sort = int(rng.integers(4))
        if sort == 0 or first == end:
            return min(first, count - 1), count
        if sort == 1:
            return 0, max(end, 1)
        return (0, count) if sort == 2 else (first, end)

    def seconds(self, first: int, end: int) -> float:
        """Alone."""
        return sum(self.block_s[first:end])

    def member(self, first: int, end: int) -> Member:
        """The segment as a predictor sees it: shares are means over its time."""
        total_s = self.seconds(first, end)
        shares = [0.0] * 8
        for segment in self.segments[first:end]:
            assert segment.pressure is not None
            for at, value in enumerate((*segment.pressure[3:8], *segment.pressure.slowdowns)):
                shares[at] += value * segment.compute_s / total_s
        counts = tuple(sum(block[at] for block in self._operators[first:end]) for at in range(7))
        size_s = sum(self.block_s)
        return Member(self._name, self._family, self._batch, first, end, (total_s, *shares), counts, size_s)


def _table(
    model: str, batch: int, hardware: StreamHardware, device: Device, on_model: Callable[[str], None]
) -> LaneTable:
    on_model(f"{model} at batch {batch}")
    name, options = zoo_options(model)
    graph = load_model(zoo_model(name, {**options, "batch": batch}, weights=False), name=name)
    return stream_table(f"{model} batch={batch}", graph, hardware, device)[0]


def _batches(model: str, splits: Splits, seed: int) -> list[int]:
    draw = stream(seed, "batches", model)
    taught, new = _BATCHES_EACH
    found = [
        *draw.choice(splits.batches, taught, replace=False).tolist(),
        *draw.choice(splits.batches_left_out, new, replace=False).tolist(),
    ]
    return sorted(found)


class _Losses:
    """Losses of blocks of two models, each looked up when it is asked for."""

    def __init__(self, loss: PairLoss, one: Sequence[Segment], other: Sequence[Segment]) -> None:
        self._loss, self._one, self._other = loss, one, other

    def __getitem__(self, at: int) -> Any:
        return _LossesOfBlock(self._loss, self._one[at], self._other)


class _LossesOfBlock:
    def __init__(self, loss: PairLoss, one: Segment, other: Sequence[Segment]) -> None:
        self._loss, self._one, self._other = loss, one, other

    def __getitem__(self, at: int) -> float:
        return self._loss(self._one, self._other[at])


def _together_s(
    one: _Model, one_range: tuple[int, int], other: _Model, other_range: tuple[int, int], loss: PairLoss
) -> float:
    """When both have ended that start together."""
    parts = [
        Part(0.0, first, each.block_s[first], end, each.block_s)
        for each, (first, end) in ((one, one_range), (other, other_range))
    ]
    losses: Any = _Losses(loss, one.segments, other.segments)
    return max(two_ends(parts[0], parts[1], losses))
