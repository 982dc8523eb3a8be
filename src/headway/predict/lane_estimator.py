"""The belief on lanes: measured times, predicted overlaps, and what the log has taught about both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headway.core.block import Segment
from headway.core.device import Device
from headway.core.messages import Dispatch
from headway.core.protocols import Estimate, LogRow
from headway.core.request import Request
from headway.core.run import Run
from headway.cost.contention import PairOverlap
from headway.cost.lanes import LaneTable
from headway.predict.analytic import AnalyticEstimator
from headway.predict.calibration import Calibration
from headway.predict.joint import Losses, Part, joint_ends, two_ends
from headway.predict.lane_models import Known, LaneModels
from headway.predict.overlap import OverlapModel
from headway.predict.tiers import Tier
from headway.predict.watch import Watch

UNPROFILED: Final = 2.0
"""What a model of which only the graph is known may take longer than predicted."""


class Asked(NamedTuple):
    """One run of a question."""

    known: Known
    part: Part
    block_class: int
    alone_s: float
    tier: Tier


class LaneEstimator(AnalyticEstimator):
    """Estimates on lanes; it learns from the log. Implements `Estimator` and `Observer`.

    All runs of a question are walked through their blocks together at the predicted losses. Of the time to
    the end of each the part together, O, is multiplied by the bias b that was learnt for the pair, within
    the bounds of alone and one after the other. The upper bound is min(m b O + m_solo (T - O), m_solo
    serial): m the margin of the tier, serial the time one after the other at the greatest loss, m_solo the
    greatest ratio of the model's runs alone lately. In C1 the losses are those at 99 %; in C0 the bound is
    twice the serial time. The tier is the least of all runs.

    With `learns` off nothing is learnt, with `margins` off upper bounds are means: both are ablations.
    `profiled` says how often models ran alone before the log; see `Tiers`. `contention` is the rule of this
    belief, for the engine.
    """

    def __init__(
        self,
        device: Device,
        tables: Mapping[str, LaneTable],
        overlap: OverlapModel,
        *,
        learns: bool = True,
        margins: bool = True,
        profiled: Mapping[str, int] | None = None,
    ) -> None:
        self.contention = PairOverlap(self._believed_loss, solo=self._solo_of)
        super().__init__(device, tables, self.contention)
        self._learns = learns
        self._margins = margins
        self._source = f"lanes, {overlap.name}"
        self._most_loss = overlap.most
        self._models = LaneModels(tables, overlap)
        self.calibration = Calibration(self._models.classes_of, self._models.blocks_of, profiled)
        self._watch = Watch(
            self._models.known,
            lambda one, other: self._models.losses(one, other)[0],
            self._models.fixed_s,
            self._learn_solo,
            self._learn_overlap,
            lambda model: self.calibration.solo(model).mean,
        )
        self._biases: dict[tuple[int, str, int, str], float] = {}
        self._biases_at = 0

    # --- learning ----------------------------------------------------------------------------------

    def observe(self, row: LogRow) -> None:
        """Learn from a row of the log."""
        if self._learns:
            self._watch.observe(row)

    def _learn_solo(self, model: str, lanes: int, first: int, end: int, ratio: float) -> None:
        if self._models.has(model):
            self.calibration.ran_alone(model, first, end, ratio)

    def _learn_overlap(
        self, model: str, lanes: int, first: int, end: int, partner: tuple[str, int, int], ratio: float
    ) -> None:
        other, other_lanes, block = partner
        if not (self._models.has(model) and self._models.has(other)):
            return  # unloaded meanwhile
        own_class = self._models.known(model, lanes).class_of(first, end)
        there = self._models.known(other, other_lanes)
        other_class = there.classes[min(block, len(there.classes) - 1)]
        self.calibration.overlapped((model, other), (own_class, other_class), ratio)

    # --- believing ---------------------------------------------------------------------------------

    def estimate(
        self,
        dispatches: Sequence[Dispatch],
        beside: Sequence[Run | Dispatch],
        extra_bytes: Sequence[float],
        now: float,
    ) -> list[Estimate]:
        """Estimates of several dispatches, each beside the same others; see Estimate for the fields."""
        others = [self._asked(other, now) for other in beside]
        return [self._estimated([self._asked(dispatch, now), *others]) for dispatch in dispatches]

    def _estimated(self, asked: Sequence[Asked]) -> Estimate:
        alone = [each.alone_s for each in asked]
        tier = min(each.tier for each in asked)
        if len(asked) == 1:
            mean = serial = alone
        else:
            serial = [
                own + self._most_loss * (sum([min(own, other) for other in alone]) - own) for own in alone
            ]
            biases = [self._joint_bias(at, asked) for at in range(len(asked))]
            ends = self._ends(asked, 0)
            mean = _within(alone, _stretched(ends, biases, [1.0] * len(asked)), serial)
        if not self._margins:
            upper = mean
        elif tier is Tier.C0:
            upper = [UNPROFILED * most for most in serial]
        else:
            shares = [self._upper_share(each) for each in asked]
            upper = [most * share for most, share in zip(serial, shares, strict=True)]
            if len(asked) > 1:
                if tier is Tier.C1:
                    ends = self._ends(asked, 1)
                margin = self.calibration.margin(tier)
                careful = _stretched(ends, [margin * b for b in biases], shares)
                upper = _within(mean, careful, upper)
        return Estimate(
            mean_s=mean[0],
            upper_s=upper[0],
            source=self._source,
            bandwidth_bytes_s=0.0,
            dram_bytes=0.0,
            sram_bytes=0.0,
            energy_pj=0.0,
            others_end_s=tuple(mean[1:]),
            others_upper_s=tuple(upper[1:]),
            tier=int(tier),
        )

    def _ends(self, asked: Sequence[Asked], head: int) -> list[float]:
        """The ends of all at the losses that are as likely exceeded as not (head 0), or at 99 % (1)."""
        if len(asked) == 2:
            one, other = asked
            return two_ends(one.part, other.part, self._models.losses(one.known, other.known)[head])
        losses: list[list[Losses | None]] = [
            [
                self._models.losses(one.known, other.known)[head] if there > at else None
                for there, other in enumerate(asked)
            ]
            for at, one in enumerate(asked)
        ]
        return joint_ends([each.part for each in asked], losses)

    def _asked(self, run: Run | Dispatch, now: float) -> Asked:
        request, blocks = run.requests[0], run.blocks
        known = self._models.known(request.model, len(run.cores))
        solo = self.calibration.solo(request.model).mean
        block_s = self._block_s(request, known, solo) if run.batch == 1 else known.of_batch(run.batch, solo)
        first, end = blocks.start, blocks.stop
        if isinstance(run, Run):
            first = min(run.segments[run.segment].first_block, end - 1)
            fixed_s = max(0.0, run.busy_from_s - now)
            first_s = max(0.0, run.block_end_s - max(now, run.busy_from_s)) * run.rate * solo
        else:
            fixed_s = self._models.fixed_s(request.model, first)
            first_s = block_s[first]
        part = Part(fixed_s, first, first_s, end, block_s)
        tier = self.calibration.tiers.of(request.model)
        return Asked(known, part, known.class_of(first, end), part.alone_s, tier)

    def _block_s(self, request: Request, known: Known, pace: float) -> Sequence[float]:
        """Seconds alone of each block of a request, as long as models take of late."""
        return known.paced(pace)

    def _joint_bias(self, at: int, asked: Sequence[Asked]) -> float:
        """The bias of one among others: the geometric mean over its pairs."""
        one = asked[at]
        product = 1.0
        for there, other in enumerate(asked):
            if there != at:
                product *= self._bias(one.block_class, one.known.model, other.block_class, other.known.model)
        return product if len(asked) == 2 else product ** (1.0 / (len(asked) - 1))

    def _bias(self, one_class: int, one: str, other_class: int, other: str) -> float:
        if self._biases_at != self.calibration.changes:
            self._biases.clear()
            self._biases_at = self.calibration.changes
        key = (one_class, one, other_class, other)
        found = self._biases.get(key)
        if found is None:
            found = self._biases[key] = self.calibration.bias((one_class, other_class), (one, other))
        return found

    def _upper_share(self, asked: Asked) -> float:
        solo = self.calibration.solo(asked.known.model)
        return solo.upper / solo.mean

    def _believed_loss(self, first: Segment, second: Segment) -> float:
        """The loss of two blocks with the bias of their pair: that on max + w min, solved for w."""
        one, other = first.pressure, second.pressure
        if one is None or other is None:
            return 0.0
        models = self._models
        here, there = models.known(one.model, one.lanes), models.known(other.model, other.lanes)
        w = models.losses(here, there)[0][one.block][other.block]
        shorter, longer = first.compute_s, second.compute_s
        if longer < shorter:
            shorter, longer = longer, shorter
        if shorter <= 0.0:
            return w
        b = self._bias(here.classes[one.block], one.model, there.classes[other.block], other.model)
        if b == 1.0:
            return w
        return min(max((b * (longer + w * shorter) - longer) / shorter, 0.0), self._most_loss)

    def _solo_of(self, segment: Segment) -> float:
        return 1.0 if segment.pressure is None else self.calibration.solo(segment.pressure.model).mean


def _stretched(ends: Sequence[float], together: Sequence[float], apart: Sequence[float]) -> list[float]:
    """Ends whose part beside others is multiplied by `together` and the rest, alone, by `apart`."""
    longest = max(ends)
    second = max([end for at, end in enumerate(ends) if at != ends.index(longest)], default=0.0)
    found = []
    for end, factor, rest in zip(ends, together, apart, strict=True):
        beside_s = min(end, second)
        found.append(factor * beside_s + rest * (end - beside_s))
    return found


def _within(least: Sequence[float], values: Sequence[float], most: Sequence[float]) -> list[float]:
    return [max(low, min(value, high)) for low, value, high in zip(least, values, most, strict=True)]
