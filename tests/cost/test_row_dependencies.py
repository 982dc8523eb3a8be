"""What tables allow to be fused, against rows traced through each layer of the zoo by ONNX Runtime."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from row_dependencies import Dependence, dependences, within_window

from headway.cost.ranges import ranges_of
from headway.cost.shapes import shapes_of
from headway.models import Graph, load_model, merge, zoo

QUICK = {
    "convnext_tiny": {"image_size": 64},
    "fsrcnn": {"image_size": 24, "scale": 3},
    "kws_res8": {"frames": 50},
    "mobilenet_v3_small": {"image_size": 96},
    "shufflenet_v2": {"image_size": 96},
    "unet": {"image_size": 48, "base_width": 8},
}
SLOW = {
    "alexnet": {},
    "bert_small": {"sequence_length": 9},
    "densenet121": {"image_size": 64},
    "dlrm": {"table_rows": 100},
    "efficientnet_b0": {"image_size": 96},
    "fbnet_c": {"image_size": 96},
    "googlenet": {"image_size": 96},
    "gpt2_small": {"sequence_length": 5},
    "inception_v3": {"image_size": 107},
    "mobilebert": {"sequence_length": 5},
    "mobilenet_v1": {"image_size": 96},
    "mobilenet_v2": {"image_size": 96},
    "regnet_y_400mf": {"image_size": 96},
    "resnet18": {"image_size": 97},
    "resnet50": {"image_size": 96},
    "rnnt_encoder": {"steps": 6},
    "squeezenet": {"image_size": 75},
    "ssd_mobilenet_v3": {"image_size": 96},
    "swin_tiny": {"image_size": 64},
    "tiny_yolov2": {"image_size": 64},
    "vit_b_16": {"image_size": 64},
    "yolo_lite": {"image_size": 64},
    "yolov2": {"image_size": 64},
}


def traced(name: str, options: dict[str, int]) -> tuple[Graph, list[Dependence]]:
    model = zoo.build(name, batch=1, **options)
    graph = merge(load_model(model))
    return graph, dependences(model, graph)


def violations(graph: Graph, found: list[Dependence]) -> list[str]:
    """Layers that some fused range runs band by band although a row of theirs needs more than its window."""
    fusable = ranges_of(graph, shapes_of(graph)).fusable
    wrong = []
    rows: dict[str, set[tuple[int, ...]]] = {}
    edges = []
    for dependence in found:
        layer, producer = dependence.layer.index, dependence.operand.producer
        assert producer is not None
        inside = [n for n in range(layer - producer + 1, fusable.shape[1]) if fusable[producer, n]]
        if not inside or not dependence.needed:
            continue
        allowed = within_window(dependence)
        if not allowed:
            wrong.append(f"{dependence.layer.name} of {dependence.operand.tensor}")
            continue
        edges.append((graph.layers[producer].output, dependence.layer.output, set(allowed)))
        for side, tensor in enumerate(edges[-1][:2]):
            rows.setdefault(tensor, {pair[side] for pair in allowed})
    while not wrong:  # the same axes of a tensor must be its rows for all who read it
        before = {tensor: set(axes) for tensor, axes in rows.items()}
        for made, output, allowed in edges:
            together = {pair for pair in allowed if pair[0] in rows[made] and pair[1] in rows[output]}
            rows[made] = {pair[0] for pair in together}
            rows[output] = {pair[1] for pair in together}
        wrong += [f"rows of {tensor}" for tensor, axes in rows.items() if not axes]
        if rows == before:
            break
    return wrong


def too_short_buffers(graph: Graph, found: list[Dependence]) -> list[str]:
    """Layers of which some band needs more input rows than the tables count for it."""
    shapes = shapes_of(graph)
    wrong = []
    for dependence in found:
        layer, operand = dependence.layer, dependence.operand
        if not operand.row_wise or operand.at_output or (layer.row_kernel, layer.row_stride) == (1, 1.0):
            continue
        needed = dependence.needed[within_window(dependence)[0]]
        for height in {1, 2, 3, math.ceil(layer.output_rows / 2)}:
            counted = min(operand.rows, math.ceil(height * layer.row_stride) + shapes.line_rows[layer.index])
            for top in range(0, layer.output_rows, height):
                read = np.flatnonzero(needed[top : top + height].any(axis=0))
                if len(read) and read[-1] - read[0] + 1 > math.ceil(counted):
                    wrong.append(f"{layer.name}: rows {top} to {top + height} read {read[0]} to {read[-1]}")
    return wrong


@pytest.mark.parametrize("name", sorted(QUICK))
def test_no_stack_crosses_a_layer_that_needs_more_rows_than_counted(name):
    graph, found = traced(name, QUICK[name])
    assert violations(graph, found) == []
    assert too_short_buffers(graph, found) == []
    assert len(found) > 5


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW))
def test_no_stack_crosses_a_layer_that_needs_more_rows_in_the_rest_of_the_zoo(name):
    graph, found = traced(name, SLOW[name])
    assert violations(graph, found) == []
    assert too_short_buffers(graph, found) == []


def test_a_barrier_that_is_not_told_is_found():
    graph, found = traced("kws_res8", {"frames": 50})
    pooled = next(layer for layer in graph.layers if layer.kind.value == "reduce")
    (read,) = pooled.operands
    told = replace(
        pooled, operands=(replace(read, row_wise=True, rows=graph.layers[read.producer].output_rows),)
    )
    layers = tuple(told if layer is pooled else layer for layer in graph.layers)
    assert violations(replace(graph, layers=layers), found) == [f"{pooled.name} of {read.tensor}"]


def test_a_window_that_is_too_short_is_found():
    graph, found = traced("kws_res8", {"frames": 50})
    convolution = next(layer for layer in graph.layers[1:] if layer.row_kernel > layer.row_stride)
    short = replace(convolution, row_kernel=convolution.row_kernel - 1)
    layers = tuple(short if layer is convolution else layer for layer in graph.layers)
    seen = [replace(each, layer=layers[each.layer.index]) for each in found]
    assert violations(replace(graph, layers=layers), seen) == [f"{short.name} of {short.operands[0].tensor}"]
    assert too_short_buffers(replace(graph, layers=layers), found)
