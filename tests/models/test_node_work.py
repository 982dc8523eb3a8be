"""What nodes of the optimised graph compute and move."""

from __future__ import annotations

import pytest

from headway.models import load_model, zoo
from headway.models.block_work import block_work
from headway.models.node_times import estimated_node_s
from headway.models.node_work import NodeWork, node_works
from headway.models.operator_class import OperatorClass
from headway.models.prepared import prepare
from headway.predict.synthetic import synthetic_network


def works_of(name: str, **options: int) -> tuple[NodeWork, ...]:
    prepared = prepare(zoo.build(name, **options))
    works = node_works(prepared)
    assert len(works) == len(prepared.graph)
    return works


@pytest.mark.parametrize(
    ("name", "options", "kinds"),
    [
        ("squeezenet", {"image_size": 64}, {"convolution", "pooling"}),
        ("mobilenet_v2", {"image_size": 64}, {"convolution", "depthwise"}),
        ("bert_small", {"sequence_length": 16}, {"matmul", "attention", "normalisation", "elementwise"}),
    ],
)
def test_work_is_that_of_the_model_as_it_is_stored(
    name: str, options: dict[str, int], kinds: set[str]
) -> None:
    works = works_of(name, **options)
    stored = load_model(zoo.build(name, **options))
    # The blocked layout of convolutions pads channels, which are then computed too.
    assert 0.98 * stored.macs <= sum(work.macs for work in works) <= 1.5 * stored.macs
    assert kinds <= {work.kind.value for work in works}


def test_a_graph_whose_shapes_the_reader_cannot_infer_has_its_work_all_the_same() -> None:
    works = works_of("swin_tiny")
    assert sum(work.macs for work in works) == pytest.approx(load_model("swin_tiny").macs, rel=0.02)


def test_sizes_of_a_product() -> None:
    gemm = next(work for work in works_of("bert_small", sequence_length=16) if work.op == "Gemm")
    assert gemm.kind is OperatorClass.MATMUL
    assert gemm.macs == gemm.m * gemm.n * gemm.k == 16 * gemm.n * gemm.k
    assert gemm.output_elements == 16 * gemm.n
    assert gemm.weight_bytes >= 4 * gemm.n * gemm.k


def test_steps_of_a_recurrence_are_told() -> None:
    model = synthetic_network(1, family="recurrent")
    steps = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
    works = node_works(prepare(model, dims={}))
    assert {work.steps for work in works if work.kind is OperatorClass.RECURRENT} == {steps}
    assert sum(work.macs for work in works) == load_model(model).macs


def test_a_block_is_the_sum_of_its_nodes() -> None:
    prepared = prepare(zoo.build("kws_res8"))
    works, node_s = node_works(prepared), estimated_node_s(prepared)
    whole = block_work(works, node_s)
    first, second = block_work(works[:3], node_s[:3]), block_work(works[3:], node_s[3:])
    assert whole.flops == first.flops + second.flops == sum(work.flops for work in works)
    assert whole.moved_bytes == first.moved_bytes + second.moved_bytes
    assert whole.kernels == first.kernels + second.kernels
    assert sum(whole.operator_shares.values()) == pytest.approx(1.0)
    assert min(first.output_elements, second.output_elements) <= whole.output_elements
