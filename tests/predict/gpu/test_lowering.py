"""Which kernels a graph's layers launch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from headway.core.errors import HeadwayError
from headway.models import load_model, merge
from headway.predict.gpu.features import KernelClass
from headway.predict.gpu.lowering import kernels_of


@pytest.fixture(scope="module")
def bert():
    return load_model("bert_base", check_runtime=False)


def classes(graph):
    return Counter(kernel.kernel_class for layer in kernels_of(graph) for kernel in layer)


def test_a_transformer_launches_what_eager_frameworks_launch(bert):
    found = classes(bert)
    assert found[KernelClass.BMM] == 24  # two products of activations in each of twelve layers
    assert found[KernelClass.SOFTMAX] == 12
    assert found[KernelClass.LINEAR] >= 72
    assert found[KernelClass.LAYER_NORM] == 25


def test_a_bias_is_part_of_its_product_and_a_gelu_one_kernel(bert):
    lowered = kernels_of(bert)
    by_op = {
        op: [len(lowered[layer.index]) for layer in bert.layers if layer.op == op]
        for op in ("Erf", "Div", "Reshape")
    }
    assert by_op["Erf"] == [1] * 12
    assert sum(by_op["Div"]) == 12  # the scaling of scores, not the GELU's
    assert sum(by_op["Reshape"]) == 0
    biases = [layer for layer in bert.layers if layer.op == "Add" and layer.weight_bytes == 768 * 4]
    assert biases
    assert not any(lowered[layer.index] for layer in biases)


def test_products_keep_all_multiply_accumulates(bert):
    flops = sum(
        kernel.flops
        for layer in kernels_of(bert)
        for kernel in layer
        if kernel.kernel_class in (KernelClass.BMM, KernelClass.LINEAR)
    )
    assert flops == pytest.approx(2 * bert.macs, rel=0.01)


def test_a_convolution_that_was_not_measured_says_so():
    graph = load_model("mobilenet_v2", check_runtime=False)
    kernels = [kernel for layer in kernels_of(graph) for kernel in layer]
    depthwise = [kernel for kernel in kernels if "depthwise" in kernel.extrapolated]
    assert len(depthwise) == 17
    plain = kernels_of(load_model("vgg11", check_runtime=False))
    measured = [kernel for layer in plain for kernel in layer if kernel.kernel_class is KernelClass.CONV]
    assert len(measured) == 8
    assert not any(kernel.extrapolated for kernel in measured)


def test_other_precisions_and_merged_layers_are_refused(bert):
    half = replace(bert, layers=tuple(replace(layer, output_dtype="float16") for layer in bert.layers))
    with pytest.raises(HeadwayError, match=r"float16; accepted: a float32 model"):
        kernels_of(half)
    with pytest.raises(HeadwayError, match="merged"):
        kernels_of(merge(bert))
