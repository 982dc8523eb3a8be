"""The predictors of Abacus and SKADI: the time of a group that starts together, by a trained network.

Both are trained on groups of models that are known beforehand, as in the originals: up to 200 random groups
of segments for each combination of models, a suffix, a prefix, the whole or an inner range of each. Their
labels come from `teacher`, the losses of the simulated device (or, where there is none, of a belief).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Final

from headway.core.device import Device
from headway.core.protocols import Estimate
from headway.cost.contention import PairLoss
from headway.cost.lanes import LaneTable
from headway.predict.joint import Losses, Part, joint_ends
from headway.predict.lane_estimator import Asked, LaneEstimator
from headway.predict.lane_models import Known, LaneModels
from headway.predict.mlp import Perceptron, fit_perceptron
from headway.predict.overlap import KnownOverlap, OverlapModel

if TYPE_CHECKING:
    import numpy as np

MOST_TOGETHER: Final = 4  # Abacus looks at groups of up to four
GROUPS_EACH: Final = 200
MOST_GROUPS: Final = 4_000
EPOCHS: Final = 60

COUNTED: Final = (
    ("Conv",),
    ("Norm",),
    ("MaxPool",),
    ("AveragePool",),
    ("Relu", "Clip", "Sigmoid", "Gelu", "Erf", "Tanh", "Softmax"),
    ("MatMul", "Gemm", "Attention"),
    ("Add", "Concat", "Mul"),
)
"""The seven sorts of operators that SKADI counts, by parts of ONNX names. Of the public code convolution,
batch normalisation, ReLU and linear are known to be among them; the other three are ours."""

Span = tuple[str, int, int]
"""Model, first block, end block."""

Row = Callable[[Sequence[Span]], list[float]]
"""The inputs of the network for a group."""


class GroupEstimator(LaneEstimator):
    """Estimates groups by a network that was trained on groups: all of a group end when it says it ends.

    One segment alone takes what it was measured to take. Nothing is learnt online, and there are no margins,
    as in the originals. A group of more than were trained for is believed to run one after the other.
    """

    def __init__(
        self,
        device: Device,
        tables: Mapping[str, LaneTable],
        overlap: OverlapModel,
        perceptron: Perceptron,
        row: Row,
        together: int,
        source: str,
    ) -> None:
        super().__init__(device, tables, overlap, learns=False, margins=False)
        self._perceptron = perceptron
        self._row = row
        self._together = together
        self._source = source

    def _estimated(self, asked: Sequence[Asked]) -> Estimate:
        import numpy as np

        if len(asked) == 1:
            return super()._estimated(asked)
        alone = [each.alone_s for each in asked]
        if len(asked) > self._together:
            ends_s = sum(alone)
        else:
            spans = [(each.known.model, each.part.first, each.part.end) for each in asked]
            predicted = float(self._perceptron.predict(np.array([self._row(spans)]))[0])
            ends_s = max(predicted, 0.0)
        return Estimate(
            mean_s=ends_s,
            upper_s=ends_s,
            source=self._source,
            bandwidth_bytes_s=0.0,
            dram_bytes=0.0,
            sram_bytes=0.0,
            energy_pj=0.0,
            others_end_s=(ends_s,) * (len(asked) - 1),
            others_upper_s=(ends_s,) * (len(asked) - 1),
        )


def skadi_estimator(
    device: Device,
    tables: Mapping[str, LaneTable],
    overlap: OverlapModel,
    teacher: PairLoss,
    seed: int,
    profiled: Collection[str] | None = None,
) -> GroupEstimator:
    """SKADI's predictor: seven counts of operators and the batch of each of two, the larger model first.

    Size is the time of the whole model here, for its megabytes are not known to cost tables; the batch is 1.
    Models that were not `profiled` (by default all were) are in no group that it is trained on.
    """
    counts = {key: _counts(table) for key, table in tables.items()}

    def row(spans: Sequence[Span]) -> list[float]:
        ordered = sorted(spans, key=lambda span: (-tables[span[0]].remaining_s[0], span))
        values: list[float] = []
        for model, first, end in ordered:
            values += [*(sum(block[at] for block in counts[model][first:end]) for at in range(7)), 1.0]
        return values

    return _trained(device, tables, overlap, teacher, row, 2, "skadi", seed, profiled)


def abacus_estimator(
    device: Device,
    tables: Mapping[str, LaneTable],
    overlap: OverlapModel,
    teacher: PairLoss,
    seed: int,
    profiled: Collection[str] | None = None,
) -> GroupEstimator:
    """Abacus's predictor: which models; first block, end, batch and sequence length of each of up to four.

    The batch is 1 and the sequence length 0, since neither is known to cost tables. A model that was not
    `profiled` (by default all were) counts as the one whose time alone is nearest to its own.
    """
    known = sorted(tables if profiled is None else profiled)
    numbers = {key: at for at, key in enumerate(known)}
    for key in tables:
        if key not in numbers:
            numbers[key] = numbers[_nearest(key, known, tables)]
    together = min(MOST_TOGETHER, max(2, len(device.cores)))

    def row(spans: Sequence[Span]) -> list[float]:
        present, values = [0.0] * len(known), []
        for model, first, end in sorted(spans, key=lambda span: (numbers[span[0]], span)):
            present[numbers[model]] += 1.0
            values += [float(first), float(end), 1.0, 0.0]
        return [*present, *values, *([0.0] * (4 * (together - len(spans))))]

    return _trained(device, tables, overlap, teacher, row, together, "abacus", seed, profiled)


def _nearest(key: str, known: Sequence[str], tables: Mapping[str, LaneTable]) -> str:
    """The one of the known models that takes the most similar time alone."""
    own_s = tables[key].remaining_s[0]
    return min(known, key=lambda each: (abs(tables[each].remaining_s[0] - own_s), each))


def _trained(
    device: Device,
    tables: Mapping[str, LaneTable],
    overlap: OverlapModel,
    teacher: PairLoss,
    row: Row,
    together: int,
    source: str,
    seed: int,
    profiled: Collection[str] | None,
) -> GroupEstimator:
    import numpy as np

    rng = np.random.default_rng([seed, len(source), together])
    taught = tables if profiled is None else {key: tables[key] for key in profiled}
    groups = _groups(taught, together, rng)
    models = LaneModels(tables, KnownOverlap(teacher))
    rows = np.array([row(group) for group in groups])
    seconds = np.array([_makespan_s(group, models) for group in groups])
    perceptron = fit_perceptron(rows, seconds, epochs=EPOCHS, rng=rng)
    return GroupEstimator(device, tables, overlap, perceptron, row, together, source)


def _groups(
    tables: Mapping[str, LaneTable], together: int, rng: np.random.Generator
) -> list[tuple[Span, ...]]:
    """Random groups of two to `together` segments, as many of each combination of models."""
    found: list[tuple[Span, ...]] = []
    for size in range(2, together + 1):
        combinations = list(combinations_with_replacement(sorted(tables), size))
        each = max(1, min(GROUPS_EACH, MOST_GROUPS // ((together - 1) * len(combinations))))
        if len(combinations) > MOST_GROUPS:
            kept = rng.choice(len(combinations), MOST_GROUPS, replace=False)
            combinations = [combinations[at] for at in sorted(kept)]
        for models in combinations:
            for _ in range(each):
                found.append(tuple((key, *_range(tables[key].blocks, rng)) for key in models))
    return found


def _range(blocks: int, rng: np.random.Generator) -> tuple[int, int]:
    """A suffix, a prefix, the whole, or an inner range."""
    first, end = sorted(rng.integers(0, blocks + 1, 2).tolist())
    sort = int(rng.integers(4))
    if sort == 0 or first == end:
        return min(first, blocks - 1), blocks
    if sort == 1:
        return 0, max(end, 1)
    return (0, blocks) if sort == 2 else (first, end)


def _makespan_s(group: Sequence[Span], models: LaneModels) -> float:
    """When the last of a group that starts together has ended."""
    known: list[Known] = [models.known(model, 1) for model, _, _ in group]
    parts = [
        Part(models.fixed_s(model, first), first, each.block_s[first], end, each.block_s)
        for each, (model, first, end) in zip(known, group, strict=True)
    ]
    losses: list[list[Losses | None]] = [
        [models.losses(one, other)[0] if there > at else None for there, other in enumerate(known)]
        for at, one in enumerate(known)
    ]
    return max(joint_ends(parts, losses))


def operator_counts(operators: Sequence[str]) -> list[float]:
    """How many operators of each of the sorts COUNTED there are among some ONNX names."""
    return [float(sum(any(part in each for part in parts) for each in operators)) for parts in COUNTED]


def _counts(table: LaneTable) -> list[list[float]]:
    """Those of each block of a model."""
    return [operator_counts(operators) for operators in table.operators]
