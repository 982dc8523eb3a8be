"""Every sort of layer has a finite cost above zero on every preset, by itself and in a table."""

from __future__ import annotations

from functools import cache
from math import isfinite, prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from headway.config import load_hardware, preset_names
from headway.cost import build_table
from headway.cost.breakdown import MAC, layer_terms
from headway.models import Graph, at_width, load_model

PRESETS = [name for name in preset_names() if not load_hardware(name).has_lanes]

# name, operator, inputs after the running tensor (shapes of weights, or names), attributes
LAYERS = [
    ("plain", "Conv", [(16, 8, 3, 3)], {"pads": [1, 1, 1, 1]}),
    ("strided_1x1", "Conv", [(32, 16, 1, 1)], {"strides": [2, 2]}),
    ("grouped", "Conv", [(32, 8, 3, 3)], {"group": 4, "pads": [1, 1, 1, 1]}),
    ("depthwise", "Conv", [(32, 1, 3, 3)], {"group": 32, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ("dilated", "Conv", [(32, 32, 3, 3)], {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
    ("oblong", "Conv", [(32, 32, 1, 5)], {"pads": [0, 2, 0, 2]}),
    ("transposed", "ConvTranspose", [(32, 16, 4, 4)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("transposed_apart", "ConvTranspose", [(16, 16, 2, 2)], {"strides": [2, 2]}),
    ("batch_norm", "BatchNormalization", [(16,), (16,), (16,), (16,)], {}),
    ("sigmoid", "Sigmoid", [], {}),
    ("residual", "Add", ["batch_norm"], {}),
    ("max_pool", "MaxPool", [], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("average_pool", "AveragePool", [], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("instance_norm", "InstanceNormalization", [(16,), (16,)], {}),
    ("softmax", "Softmax", [], {"axis": -1}),
    ("layer_norm", "LayerNormalization", [(8,)], {"axis": -1}),
    ("batched_product", "MatMul", ["softmax"], {}),
    ("weights_product", "MatMul", [(8, 24)], {}),
    ("global_pool", "GlobalAveragePool", [], {}),
    ("flat", "Flatten", [], {}),
    ("classifier", "Gemm", [(10, 16)], {"transB": 1}),
]


@cache
def graph() -> Graph:
    """One after the other, none folded into another: maps of 32 x 32 with 8 channels to begin with."""
    rng = np.random.default_rng(0)
    nodes, weights, running = [], [], "input"
    for name, op, others, attributes in LAYERS:
        inputs = [running]
        for position, other in enumerate(others):
            if isinstance(other, str):
                inputs.append(other)
                continue
            tensor = f"{name}_{position}"
            weights.append(numpy_helper.from_array(rng.random(other, dtype=np.float32), tensor))
            inputs.append(tensor)
        nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        running = name
    shapes = {"input": [1, 8, 32, 32], running: [1, 10]}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    made = helper.make_graph(nodes, "sorts", ends[:1], ends[1:], weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return at_width(load_model(model), 1)


def test_the_layers_are_what_they_are_called() -> None:
    names = [layer.name for layer in graph().layers]
    assert [name for name, *_ in LAYERS if name != "flat"] == [name for name in names if name != "flat"]
    assert not graph().unknown_ops
    by_name = {layer.name: layer for layer in graph().layers}
    products = ("plain", "grouped", "depthwise", "dilated", "oblong", "transposed", "transposed_apart")
    for name in (*products, "strided_1x1", "batched_product", "weights_product", "classifier"):
        assert by_name[name].macs > 0, name
    assert by_name["grouped"].macs == 32 * 8 * 9 * 16 * 16
    assert by_name["transposed"].macs == 32 * 16 * 16 * 8 * 8  # every input meets every tap


@pytest.mark.parametrize("preset", PRESETS)
def test_every_sort_of_layer_costs_something_on_every_preset(preset: str) -> None:
    device = load_hardware(preset)
    rows = layer_terms(graph(), device)
    table = build_table(graph(), device)
    for layer, row in zip(graph().layers, rows, strict=True):
        for kind, (core, terms) in enumerate(zip(device.exemplars, row, strict=True)):
            where = (layer.name, core.name)
            if layer.output_bytes and (layer.macs or layer.vector_ops):
                assert terms.compute_cycles > 0, where
            assert isfinite(terms.latency_cycles), where
            assert terms.latency_cycles > 0, where
            parts = (terms.compute_cycles, terms.stall_cycles, terms.onload_cycles, terms.offload_cycles)
            assert min(parts) >= 0, where
            assert terms.latency_cycles >= layer.macs / (core.rows * core.columns), where
            assert all(isfinite(value) and value >= 0 for value in terms.memory_bytes.values()), where
            assert terms.energy_pj_by[MAC] >= layer.macs * core.mac_energy_pj, where
            assert isfinite(terms.energy_pj), where
            assert terms.energy_pj > 0, where
            option = table.serial[layer.index][kind]
            assert isfinite(table.serial_s[layer.index][kind]), where
            assert table.serial_s[layer.index][kind] > 0, where
            assert option.energy_pj > 0, where
            # Outputs and weights cross the interface of a layer that is alone, whatever its sort.
            assert min(terms.dram_bytes, option.dram_bytes) >= layer.weight_bytes + layer.output_bytes, where


def test_shapes_of_weights_are_those_of_the_graph() -> None:
    """Guards the table above: parameters of all layers, by hand."""
    weights = sum(prod(shape) for _, _, others, _ in LAYERS for shape in others if not isinstance(shape, str))
    assert graph().params == weights
