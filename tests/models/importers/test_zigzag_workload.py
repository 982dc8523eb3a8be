"""ZigZag's workloads as graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.core.errors import HeadwayError
from headway.models import LayerKind, load_model, merge
from headway.models.graph import Graph

EIGHT_BITS = {"W": 8, "I": 8, "O": 16, "O_final": 8}
# Twelve layers of ResNet-18 as they were run on ZigZag 3.9.1: name, stride, and B K C OY OX FY FX.
RESNET18 = [
    ("conv1", 2, [1, 64, 3, 112, 112, 7, 7], 118_013_952),
    ("l1_3x3", 1, [1, 64, 64, 56, 56, 3, 3], 115_605_504),
    ("l2_down3x3", 2, [1, 128, 64, 28, 28, 3, 3], 57_802_752),
    ("l2_proj", 2, [1, 128, 64, 28, 28, 1, 1], 6_422_528),
    ("l2_3x3", 1, [1, 128, 128, 28, 28, 3, 3], 115_605_504),
    ("l3_down3x3", 2, [1, 256, 128, 14, 14, 3, 3], 57_802_752),
    ("l3_proj", 2, [1, 256, 128, 14, 14, 1, 1], 6_422_528),
    ("l3_3x3", 1, [1, 256, 256, 14, 14, 3, 3], 115_605_504),
    ("l4_down3x3", 2, [1, 512, 256, 7, 7, 3, 3], 57_802_752),
    ("l4_proj", 2, [1, 512, 256, 7, 7, 1, 1], 6_422_528),
    ("l4_3x3", 1, [1, 512, 512, 7, 7, 3, 3], 115_605_504),
    ("fc", 1, [1, 1000, 512, 1, 1, 1, 1], 512_000),
]


def conv(
    number: int, sizes: list[int], stride: int = 1, source: int | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "id": number,
        "operator_type": "Conv",
        "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
        "dimension_relations": [f"ix={stride}*ox+1*fx", f"iy={stride}*oy+1*fy"],
        "loop_dims": ["B", "K", "C", "OY", "OX", "FY", "FX"],
        "loop_sizes": sizes,
        "operand_precision": EIGHT_BITS,
        "operand_source": {"I": number if source is None else source, "W": number},
        **more,
    }


@pytest.fixture
def read(tmp_path: Path):
    def write(*layers: dict[str, Any]) -> Graph:
        path = tmp_path / "net.yaml"
        path.write_text(yaml.safe_dump(list(layers), sort_keys=False))
        return load_model(path)

    return write


def test_the_loops_of_resnet18_come_over_as_they_are(read):
    graph = read(*(conv(n, sizes, stride, name=name) for n, (name, stride, sizes, _) in enumerate(RESNET18)))

    assert [layer.name for layer in graph.layers] == [name for name, _, _, _ in RESNET18]
    assert [layer.macs for layer in graph.layers] == [macs for *_, macs in RESNET18]
    for layer, (_, stride, sizes, _) in zip(graph.layers, RESNET18, strict=True):
        dims = layer.dims
        assert sizes == [dims.B, dims.K, dims.C, dims.OY, dims.OX, dims.FY, dims.FX]
        assert (dims.stride_y, dims.stride_x) == (stride, stride)
        assert layer.operands[0].producer is None
    # The input as the loops run over it: 2 * 111 + 7 rows.
    assert graph.layers[0].dims.IY == 229
    assert graph.weight_bytes == graph.params


def test_edges_padding_and_sums_are_found(read):
    pool = {
        **conv(1, [1, 64, 56, 56, 3, 3], 2, 0),
        "operator_type": "Pooling",
        "equation": "O[b][g][oy][ox]+=W[fx][fy]*I[b][g][iy][ix]",
        "loop_dims": ["B", "G", "OY", "OX", "FX", "FY"],
        "operand_precision": {"I": 8, "W": 0, "O": 16, "O_final": 8},
    }
    add = {
        "id": 4,
        "operator_type": "Add",
        "equation": "O[b][g][oy][ox]=W[b][g][oy][ox]+I[b][g][oy][ox]",
        "loop_dims": ["B", "G", "OY", "OX"],
        "loop_sizes": [1, 64, 56, 56],
        "operand_precision": EIGHT_BITS,
        "operand_source": {"W": 1, "I": 3},
    }
    graph = read(
        conv(0, [1, 64, 3, 112, 112, 7, 7], 2),
        pool,
        conv(2, [1, 64, 64, 56, 56, 3, 3], 1, 1),
        conv(3, [1, 64, 64, 56, 56, 3, 3], 1, 2),
        add,
    )
    _, pooled, second, third, total = graph.layers

    assert (pooled.kind, pooled.macs, pooled.params) == (LayerKind.POOL, 0, 0)
    assert pooled.vector_ops == 64 * 56 * 56 * 9
    assert (pooled.dims.IY, pooled.dims.pad_top, pooled.dims.pad_bottom) == (112, 1, 0)
    assert (second.dims.IY, second.dims.pad_top, second.dims.pad_bottom) == (56, 1, 1)
    assert (total.kind, total.vector_ops) == (LayerKind.ELEMENTWISE, 64 * 56 * 56)
    assert [operand.producer for operand in total.operands] == [3, 1]
    assert all(operand.row_wise for layer in graph.layers for operand in layer.operands)
    assert third.output_bytes == 64 * 56 * 56
    assert len(merge(graph).layers) == 4  # the sum joins the convolution before it


def test_groups_and_depthwise(read):
    grouped = {
        **conv(0, [4, 8, 16, 10, 10, 3, 3]),
        "equation": "O[g][k][oy][ox]+=W[g][k][c][fy][fx]*I[g][c][iy][ix]",
        "loop_dims": ["G", "K", "C", "OY", "OX", "FY", "FX"],
    }
    depthwise = {
        **conv(1, [32, 10, 10, 3, 3]),
        "equation": "O[g][oy][ox]+=W[g][fy][fx]*I[g][iy][ix]",
        "loop_dims": ["G", "OY", "OX", "FY", "FX"],
    }
    first, second = read(grouped, depthwise).layers

    assert (first.dims.groups, first.dims.K, first.dims.C) == (4, 32, 64)
    assert (first.macs, first.params) == (4 * 8 * 16 * 900, 4 * 8 * 16 * 9)
    assert (second.dims.groups, second.dims.K, second.dims.C) == (32, 32, 32)
    assert (second.macs, second.params) == (32 * 900, 32 * 9)


def test_matrix_products_with_weights_and_of_activations(read):
    def gemm(number: int, equation: str, dims: list[str], sizes: list[int], **sources: int) -> dict[str, Any]:
        return {
            "id": number,
            "operator_type": "Gemm",
            "equation": equation,
            "loop_dims": dims,
            "loop_sizes": sizes,
            "operand_precision": {"W": 4, "I": 8, "O": 8},
            "operand_source": sources,
        }

    first, second = read(
        gemm(0, "O[m][n]+=I[m][k]*W[k][n]", ["M", "N", "K"], [128, 64, 256]),
        gemm(1, "O[m][n]+=I[m][k]*W[k][n]", ["M", "N", "K"], [128, 128, 64], I=0, W=0),
    ).layers

    assert (first.dims.m, first.dims.n, first.dims.k) == (128, 64, 256)
    assert (first.params, first.weight_bytes) == (64 * 256, 64 * 256 // 2)
    assert second.weight_is_activation
    assert second.params == 0
    assert [operand.row_wise for operand in second.operands] == [True, False]


def test_padding_that_the_file_tells_is_taken(read):
    given = {"pr_loop_dims": ["IX", "IY"], "pr_loop_sizes": [56, 56], "padding": [[1, 1], [1, 1]]}
    (layer,) = read(conv(0, [1, 8, 3, 56, 56, 3, 3], **given)).layers

    assert (layer.dims.IY, layer.dims.pad_top, layer.dims.pad_bottom) == (56, 1, 1)
    assert layer.input_bytes == 3 * 56 * 56


def test_widths_other_than_the_outputs_own_are_said_to_be_the_hardwares(read):
    graph = read(conv(0, [1, 8, 3, 8, 8, 3, 3]))
    assert "operand_precision.O" in graph.warnings[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operator_type": "SConv"}, "operator_type: SConv has no counterpart"),
        ({"time_dim": "T"}, "time_dim: has no counterpart"),
        ({"equation": "O = W * I"}, "equation: found"),
        ({"loop_sizes": [1, 8]}, "loop_sizes: found 2 sizes; accepted: 7"),
        ({"loop_sizes": [1, 8, 3, 8, 8, 3, 0]}, "loop_sizes of FX: found 0"),
        ({"loop_dims": ["B", "K", "C", "OY", "OX", "FY", "Q"]}, "loop_dims: FX of the equation is missing"),
        (
            {"dimension_relations": ["ox=1*ix+1*fx", "oy=1*iy+1*fy"]},
            "loop_dims: IY of the equation is missing",
        ),
        ({"dimension_relations": ["ix ~ ox"]}, "dimension_relations: found 'ix ~ ox'"),
        ({"operand_source": {"I": 7}}, "operand_source.I: found 7; accepted: the id of a layer above"),
        ({"operand_precision": {"W": 7, "I": 8, "O": 8}}, "operand_precision.W: found 7; accepted: 2, 4, 8"),
        ({"padding": [[1, 1]]}, "padding: without pr_loop_dims"),
    ],
)
def test_errors_name_line_layer_and_field(read, change, said):
    with pytest.raises(HeadwayError) as caught:
        read(conv(0, [1, 8, 3, 8, 8, 3, 3], **change))
    assert said in str(caught.value)
    assert "net.yaml:1: layer 0" in str(caught.value)


@pytest.mark.parametrize("text", ["", "a: 1\n", "- 1\n- 2\n", "[", "- {id: 0"])
def test_other_yaml_is_refused_by_name(tmp_path, text):
    path = tmp_path / "other.yaml"
    path.write_text(text)
    with pytest.raises(HeadwayError, match=r"other\.yaml"):
        load_model(path)
