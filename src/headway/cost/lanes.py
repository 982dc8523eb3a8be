"""The cost table of a measured model on a device with lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

from headway.core.block import Mode, Option, Pressure, Segment
from headway.core.device import Device
from headway.models.profile import DeviceProfile, ModelProfile


class LaneTable:
    """Implements `headway.core.protocols.CostTable` from measured seconds; see there for the attributes.

    A serial run takes the seconds that its blocks take on one lane; a split run over m lanes those that
    they take with m times as many threads, and exists if that was measured. A run pays for its dispatch
    once, before its first block, and that part is not stretched by co-runners; one that goes on inside a
    model pays for the switch from another model too, which the measured time of a model's first block has
    in it already. There are no fused and no pipelined runs. Memory traffic and energy are not known on lanes:
    those counts are zero.

    `serial_s` and `best_s` are runs of one block; `remaining_s` is one run over all that remains, on one
    lane. `lanes_measured` are the numbers of lanes over which a run may be split, one lane included.
    `operators` names those of each block. What a batch presses on while it runs is taken to be what one
    request does.
    """

    def __init__(
        self,
        model: ModelProfile,
        device: Device,
        overheads: DeviceProfile,
        pressures: Mapping[int, Sequence[Pressure]] | None = None,
    ) -> None:
        """`pressures` are those of each block, by the number of lanes, where they are known; where they are
        not, blocks only tell who they are.

        Raises ValueError if a model has no blocks, or not one pressure for each; HeadwayError if it was not
        measured on one lane.
        """
        if not model.blocks:
            raise ValueError(f"model {model.model} has no blocks, so there is nothing to run")
        threads = device.cores[0].threads
        self.model = model.model
        self.most_batch = model.most_batch
        self._profile, self._device, self._overheads, self._pressures = model, device, overheads, pressures
        self._of_batch: dict[int, LaneTable] = {}
        self.blocks = len(model.blocks)
        self.kinds = device.kinds
        self.operators = tuple(block.operators for block in model.blocks)
        self._dispatch_s = overheads.dispatch_s
        self._switch_s = overheads.switch_s
        self._block_s = {1: model.seconds(threads)}
        for lanes in range(2, len(device.cores) + 1):
            if lanes * threads in model.widths:
                self._block_s[lanes] = model.seconds(lanes * threads)
        self._up_to_s = {
            lanes: tuple(accumulate(seconds, initial=0.0)) for lanes, seconds in self._block_s.items()
        }
        self.lanes_measured = tuple(self._block_s)
        every = range(self.blocks)
        self.serial: Sequence[Sequence[Option]] = [
            [self._sum(Mode.SERIAL, block, block + 1, (0,))] for block in every
        ]
        self.serial_s: Sequence[Sequence[float]] = [
            [row[0].fixed_s + row[0].compute_s] for row in self.serial
        ]
        self.best_s: Sequence[float] = [row[0] for row in self.serial_s]
        total_s = self._up_to_s[1][-1]
        self.remaining_s: Sequence[float] = [
            *(self._fixed_s(at) + total_s - done_s for at, done_s in enumerate(self._up_to_s[1][:-1])),
            0.0,
        ]
        self.kept_bytes: Sequence[Sequence[float]] = [[0.0] for _ in every]
        self.unwritten_bytes: Sequence[Sequence[float]] = [[0.0] for _ in every]
        self.option = lru_cache(maxsize=None)(self._option)
        known = pressures or {}
        for lanes, each in known.items():
            if len(each) != self.blocks:
                raise ValueError(
                    f"{model.model}: {len(each)} pressures on {lanes} lanes, {self.blocks} blocks"
                )
        self._segments = {
            lanes: tuple(
                Segment(at, at + 1, 0.0, block_s, 0.0, pressure=pressure)
                for at, (block_s, pressure) in enumerate(
                    zip(seconds, known.get(lanes) or self._unknown(lanes), strict=True)
                )
            )
            for lanes, seconds in self._block_s.items()
        }
        self._first_segments = {
            lanes: tuple(replace(segment, fixed_s=self._fixed_s(at)) for at, segment in enumerate(segments))
            for lanes, segments in self._segments.items()
        }

    def _unknown(self, lanes: int) -> Sequence[Pressure]:
        return [Pressure(self.model, at, lanes, 0.0, 0.0, 0.0, 0.0) for at in range(self.blocks)]

    def blocks_on(self, lanes: int) -> Sequence[Segment]:
        """The segment of each block over that many lanes, without dispatch and switch."""
        return self._segments[lanes]

    @property
    def isolated_s(self) -> float:
        """Seconds of the whole model alone on the device, on as many lanes as make it fastest."""
        return self._fixed_s(0) + min(up_to_s[-1] for up_to_s in self._up_to_s.values())

    def of_batch(self, size: int) -> LaneTable:
        """The costs of so many requests together. Raises ValueError for more than were measured together."""
        if size == 1:
            return self
        found = self._of_batch.get(size)
        if found is None:
            profile = self._profile.of_batch(size)
            found = self._of_batch[size] = LaneTable(profile, self._device, self._overheads, self._pressures)
        return found

    def stacks(self, block: int) -> Sequence[Option]:
        """None: lanes run blocks one after the other."""
        return ()

    def pipelines(self, block: int) -> Sequence[Option]:
        """None: lanes run blocks one after the other."""
        return ()

    def _option(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...] = (),
        band_rows: int | None = None,
    ) -> Option:
        """The cost of running that range that way. Raises ValueError saying why if it cannot be run so."""
        where = f"{mode} run of blocks {first} to {end} of {self.model}"
        if not 0 <= first < end <= self.blocks:
            raise ValueError(f"{where}: it has blocks 0 to {self.blocks}, and a range needs at least one")
        if mode not in (Mode.SERIAL, Mode.SPLIT) or cuts or band_rows is not None:
            raise ValueError(f"{where}: on lanes a run is serial or split, without stages and bands")
        if any(kinds):
            raise ValueError(f"{where}: all lanes are of type 0, not {kinds}")
        if mode is Mode.SERIAL and len(kinds) != 1:
            raise ValueError(f"{where}: it takes one lane, not {len(kinds)}")
        if mode is Mode.SPLIT and (len(kinds) < 2 or len(kinds) not in self._block_s):
            wider = ", ".join(map(str, self.lanes_measured[1:])) or "none"
            raise ValueError(f"{where}: not measured on {len(kinds)} lanes; accepted: {wider}")
        return self._sum(mode, first, end, kinds)

    def _fixed_s(self, first: int) -> float:
        return self._dispatch_s + (self._switch_s if first else 0.0)

    def _sum(self, mode: Mode, first: int, end: int, kinds: tuple[int, ...]) -> Option:
        up_to_s = self._up_to_s[len(kinds)]
        return Option(
            mode=mode,
            first=first,
            end=end,
            kinds=kinds,
            cuts=(),
            band_rows=None,
            steps=end - first,
            fixed_s=self._fixed_s(first),
            compute_s=up_to_s[end] - up_to_s[first],
            dram_bytes=0.0,
            link_bytes=0.0,
            sram_bytes=0.0,
            energy_pj=0.0,
            macs=0.0,
            serial_dram_bytes=0.0,
        )

    def segments(self, option: Option) -> Sequence[Segment]:
        """One for each block: its end is a safe point."""
        lanes, first = len(option.kinds), option.first
        return (self._first_segments[lanes][first], *self._segments[lanes][first + 1 : option.end])
