"""The cost table of one model on one device: everything a policy may ask, computed once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from headway.core.block import Mode, Option, Segment
from headway.core.device import Device
from headway.core.errors import HeadwayError
from headway.cost.axes import Axis, axes_of
from headway.cost.model import Model
from headway.cost.ranges import MAX_LENGTH
from headway.cost.serial import serial_option, serial_runs, serial_segments
from headway.cost.split import split_option, split_segments
from headway.models.graph import Graph


def build_table(graph: Graph, device: Device) -> Table:
    """Costs of all blocks of a graph on a device. One block is one layer of the graph.

    The graph must have at least one layer; its byte counts are taken as they are, so bring it to the
    device's operand width (`at_width`) and fold its followers (`merge`) first. Raises HeadwayError for a
    device with lanes, which have measured costs only (`LaneTable`).
    """
    if device.has_lanes:
        raise HeadwayError(
            f"{device.name} has lanes: what {graph.name} costs there is measured, not computed from layers"
        )
    if not graph.layers:
        raise ValueError(f"model {graph.name} has no layers, so there is nothing to run")
    return Table(Model.of(graph, device))


class Table:
    """Implements `headway.core.protocols.CostTable`; see there for what the attributes mean."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._runs = serial_runs(model)
        self.blocks = len(model)
        self.kinds = model.device.kinds
        kinds = range(len(self.kinds))
        self.serial_s: Sequence[Sequence[float]] = (self._runs.cold_s + model.device.dispatch_s).tolist()
        self.serial: Sequence[Sequence[Option]] = [
            [serial_option(model, self._runs, block, block + 1, kind) for kind in kinds]
            for block in range(self.blocks)
        ]
        self.best_s: Sequence[float] = [min(row) for row in self.serial_s]
        self.remaining_s: Sequence[float] = [*np.cumsum(self.best_s[::-1])[::-1].tolist(), 0.0]
        self.kept_bytes: Sequence[Sequence[float]] = model.serial.kept.tolist()
        self.unwritten_bytes: Sequence[Sequence[float]] = model.serial.unwritten.tolist()
        self._axes = axes_of(model)
        self._stack_options: dict[int, tuple[Option, ...]] = {}
        self._pipeline_options: dict[int, tuple[Option, ...]] = {}
        # Engine and policies ask for the same ranges over and over; answers never change.
        self.most_batch = 1
        self.option = lru_cache(maxsize=None)(self._option)
        self.segments = lru_cache(maxsize=None)(self._segments)

    def of_batch(self, size: int) -> Table:
        """Itself for one request: what larger batches cost on an accelerator is that of a larger graph.

        Raises ValueError for more.
        """
        if size != 1:
            raise ValueError(f"a batch of {size}: an accelerator takes one request per run")
        return self

    def stacks(self, block: int) -> Sequence[Option]:
        """Every fused stack on one core that starts there, fits, and moves fewer bytes than its serial run.

        Each in its fastest band height; equally fast heights give the larger.
        """
        if block not in self._stack_options:
            found = [option for axis in self._axes for option in axis.fused(block)]
            self._stack_options[block] = tuple(sorted(found, key=lambda option: (option.kinds, option.end)))
        return self._stack_options[block]

    def pipelines(self, block: int) -> Sequence[Option]:
        """The pipelines over several cores that start there and fit.

        For every length and tuple of core types the fastest of all stage cuts and band heights tried, as
        `option` without cuts finds it; without those that another one of the same length equals or beats in
        time and traffic with no more cores of any type.
        """
        if block not in self._pipeline_options:
            found = [option for axis in self._axes for option in axis.pipelined(block)]
            self._pipeline_options[block] = tuple(found)
        return self._pipeline_options[block]

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
        self._check(mode, first, end, kinds, cuts, band_rows)
        if mode is Mode.SERIAL:
            return serial_option(self._model, self._runs, first, end, kinds[0])
        if mode is Mode.SPLIT:
            return split_option(self._model, first, end, kinds)
        axis = self._axis(mode, first, end, band_rows)
        if mode is Mode.FUSED:
            return axis.fused_at(first, end, kinds[0], band_rows)
        return axis.pipelined_at(first, end, kinds, cuts, band_rows)

    def _segments(self, option: Option) -> Sequence[Segment]:
        """The stretches of constant demand that an option consists of, in order."""
        if option.mode is Mode.SERIAL:
            return serial_segments(self._model, self._runs, option.first, option.end, option.kinds[0])
        if option.mode is Mode.SPLIT:
            return split_segments(self._model, option.first, option.end, option.kinds)
        return (
            Segment(
                first_block=option.first,
                end_block=option.end,
                fixed_s=option.fixed_s,
                compute_s=option.compute_s,
                dram_bytes=option.dram_bytes,
                steps=option.steps,
                link_bytes=option.link_bytes,
                energy_pj=option.energy_pj,
                macs=option.macs,
            ),
        )

    def _check(
        self,
        mode: Mode,
        first: int,
        end: int,
        kinds: tuple[int, ...],
        cuts: tuple[int, ...],
        band_rows: int | None,
    ) -> None:
        where = f"{mode} run of blocks {first} to {end} of {self._model.graph.name}"
        if not 0 <= first < end <= self.blocks:
            raise ValueError(
                f"{where}: the model has blocks 0 to {self.blocks}, and a range needs at least one"
            )
        single = mode in (Mode.SERIAL, Mode.FUSED)
        if single and len(kinds) != 1:
            raise ValueError(f"{where}: it takes one core, not {len(kinds)}")
        if not single and len(kinds) < 2:
            raise ValueError(f"{where}: it takes at least two cores, not {len(kinds)}")
        for kind, available in enumerate(self._model.device.kind_counts):
            if kinds.count(kind) > available:
                name = self.kinds[kind]
                raise ValueError(
                    f"{where}: it asks for {kinds.count(kind)} cores of type {name}, there are {available}"
                )
        if any(not 0 <= kind < len(self.kinds) for kind in kinds):
            raise ValueError(f"{where}: core types are 0 to {len(self.kinds) - 1}, not {kinds}")
        if cuts and mode is not Mode.PIPELINE:
            raise ValueError(f"{where}: only a pipeline has stage cuts")
        if band_rows is not None and mode in (Mode.SERIAL, Mode.SPLIT):
            raise ValueError(f"{where}: only fused and pipelined runs have a band height")
        if band_rows is not None and band_rows < 1:
            raise ValueError(f"{where}: a band has at least one row, not {band_rows}")

    def _axis(self, mode: Mode, first: int, end: int, band_rows: int | None) -> Axis:
        """The axis along which a range is cut. Raises ValueError if it cannot be fused so."""
        graph = self._model.graph
        where = f"blocks {first} to {end} of {graph.name} cannot be fused"
        if end - first > MAX_LENGTH:
            raise ValueError(f"{where}: a stack has at most {MAX_LENGTH} layers, not {end - first}")
        if end - first < 2:
            raise ValueError(f"{where}: a stack has at least two layers")
        axis = next((axis for axis in self._axes if axis.covers[first, end - first]), self._axes[0])
        ranges = axis.model.ranges
        whole = mode is Mode.FUSED and (band_rows or math.inf) >= axis.model.shapes.rows[end - 1]
        for layer in range(first + 1, end):
            if ranges.barrier[layer] >= first and not whole:
                needed = graph.layers[ranges.barrier[layer]].name
                raise ValueError(
                    f"{where}: {graph.layers[layer].name} needs all {axis.name} of {needed} before its first"
                )
        if not (ranges.joined if whole else ranges.fusable)[first, end - first]:
            raise ValueError(f"{where}: its layers are not connected with each other inside the range")
        return axis
