"""Analytic costs of layers, fused stacks, pipelines and splits on a described device.

`build_table` gives the costs of a model on a device; `systolic_cycles` and `conv_gemm` the cycles of an
array; `fused_chain`, `closed_form_cycles`, `serial_chain` and `split_dram_bits` runs of chains that are
described by their dimensions alone, for comparison with other tools; `map_layer` the cost of one layer under
a mapping on a core that is described by its memories. `LaneTable` has measured costs. `demand` says what
requests ask of a device, as shares of its capacity.
"""

from __future__ import annotations

from headway.cost.capacity import Demand, demand
from headway.cost.chain import OUTSIDE, ChainLayer, ChainRun, closed_form_cycles, serial_chain
from headway.cost.contention import MaxMinFair, OverlapLoss, PairOverlap, Proportional
from headway.cost.dataflow import conv_gemm, systolic_cycles
from headway.cost.fused import input_buffer_rows
from headway.cost.lanes import LaneTable
from headway.cost.mapped import MappedLayer
from headway.cost.nest import Nest
from headway.cost.schedule import fused_chain
from headway.cost.search import map_layer, mapping_front
from headway.cost.split import split_dram_bits
from headway.cost.table import Table, build_table

__all__ = [
    "OUTSIDE",
    "ChainLayer",
    "ChainRun",
    "Demand",
    "LaneTable",
    "MappedLayer",
    "MaxMinFair",
    "Nest",
    "OverlapLoss",
    "PairOverlap",
    "Proportional",
    "Table",
    "build_table",
    "closed_form_cycles",
    "conv_gemm",
    "demand",
    "fused_chain",
    "input_buffer_rows",
    "map_layer",
    "mapping_front",
    "serial_chain",
    "split_dram_bits",
    "systolic_cycles",
]
