"""Layers and arrays on which rows and columns are alike: half of all loop orders stand for the rest."""

from __future__ import annotations

from headway.core.hierarchy import LOOP_DIMS, Hierarchy
from headway.cost.nest import AT, Nest, input_map
from headway.cost.orders import MIRRORED


def is_symmetric(nest: Nest, hierarchy: Hierarchy) -> bool:
    """Whether a mapping and the one with rows and columns swapped cost the same.

    That is so if the map, the filter and the steps are square, and if the array and what its memories serve
    stay the same. Arrays that unroll a loop on several axes are taken not to be: which axis has what of it
    does not follow from the iterations that are left.
    """
    square = (
        nest.sizes[AT["OY"]] == nest.sizes[AT["OX"]]
        and nest.sizes[AT["FY"]] == nest.sizes[AT["FX"]]
        and (nest.stride_y, nest.dilation_y) == (nest.stride_x, nest.dilation_x)
        and len(set(input_map(nest))) == 1
    )
    return square and _is_symmetric_array(hierarchy)


def _is_symmetric_array(hierarchy: Hierarchy) -> bool:
    axes = [frozenset(loops) for loops in hierarchy.axes]
    names = [name for axis in axes for name, _ in axis]
    if len(set(names)) < len(names):
        return False
    swapped = [frozenset((_mirrored(name), factor) for name, factor in axis) for axis in axes]
    if any(axis not in axes for axis in swapped):
        return False
    to = [axes.index(axis) for axis in swapped]
    groups = [set(hierarchy.systolic), *(set(memory.axes) for memory in hierarchy.memories)]
    return all({to[axis] for axis in group} == group for group in groups)


def _mirrored(name: str) -> str:
    return LOOP_DIMS[int(MIRRORED[AT[name]])]
