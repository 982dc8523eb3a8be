"""Layer tables of MAESTRO and XRBench as graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.core.errors import HeadwayError
from headway.models import load_model

# KD_res8_narrow's layers as XRBench tabulates them: output channels, channels, rows, columns, filter side.
KEYWORDS = [(19, 1, 98, 40, 3), *[(19, 19, 24, 13, 3)] * 6, (12, 19, 19, 1, 1)]
WITH_RATES = "Network {name} {{\n FPS: 3\n Probability: 0.5\n Dependency: {{\n  other\n }}\n{layers}}}\n"


@pytest.fixture
def table(tmp_path: Path):
    def write(text: str, name: str = "net.m") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def _layer(name: str, dimensions: str, kind: str = "CONV", more: str = "") -> str:
    return f"  Layer {name} {{\n    Type: {kind}\n    {more}\n    Dimensions {{ {dimensions} }}\n  }}\n"


def _network(*layers: str, name: str = "Net") -> str:
    return f"Network {name} {{\n{''.join(layers)}}}\n"


def _keywords() -> str:
    layers = "".join(
        _layer(f"conv{n}", f"N: 1, K: {k}, C: {c}, Y: {y}, X: {x}, R: {r}, S: {r}")
        for n, (k, c, y, x, r) in enumerate(KEYWORDS)
    )
    return WITH_RATES.format(name="KD_res8_narrow", layers=layers)


def test_totals_of_an_xrbench_table(table):
    graph = load_model(table(_keywords()))

    assert graph.name == "KD_res8_narrow"
    assert len(graph.layers) == 8
    assert graph.params == 19_893
    assert graph.macs == 5_345_688
    assert any("FPS" in warning and "scenario" in warning for warning in graph.warnings)


def test_layers_that_fit_follow_each_other(table):
    graph = load_model(table(_keywords()))
    third = graph.layers[2]

    # 24 rows wanted, 22 made: the two between are the padding of a filter of three.
    assert (third.operands[0].producer, third.operands[0].row_wise) == (1, True)
    assert (third.dims.IY, third.dims.pad_top, third.dims.pad_bottom) == (22, 1, 1)
    assert third.dims.OY == 22
    assert graph.layers[1].operands[0].producer is None  # 96 rows made, 24 wanted


def test_depthwise_strided_and_dilated_layers(table):
    depthwise = _layer("dw", "K: 1, C: 96, R: 3, S: 3, Y: 113, X: 113", "DSCONV", "Stride { X: 2, Y: 2 }")
    dilated = _layer("d", "K: 8, C: 4 R: 3, S: 1, Y: 20, X: 5", "CONV", "Dilation { Y: 2, X: 1 }")
    first, second = load_model(table(_network(depthwise, dilated))).layers

    assert (first.dims.groups, first.dims.K, first.dims.OY) == (96, 96, 56)
    assert first.macs == 96 * 56 * 56 * 9
    assert (second.dims.OY, second.dims.OX, second.row_kernel) == (16, 5, 5)


def test_constants_and_products(table):
    text = "Constant L 128;\n// heads\n" + _network(
        _layer("proj", "M: L, N: 512, K: 256", "GEMM"), _layer("scores", "B: 8, M: L, N: L, K: 64", "BMM")
    )
    first, second = load_model(table(text)).layers

    assert (first.dims.m, first.dims.n, first.dims.k) == (128, 512, 256)
    assert first.params == 512 * 256
    assert second.macs == 8 * 128 * 128 * 64
    assert second.weight_is_activation
    assert second.params == 0
    # The projection's columns are the heads: the same tensor under another shape, so all of it is needed.
    assert [operand.producer for operand in second.operands] == [0, None]
    assert [operand.row_wise for operand in second.operands] == [False, False]


def test_a_transposed_convolution_without_stride_enlarges_by_its_filter_and_says_so(table):
    graph = load_model(table(_network(_layer("up", "K: 64, C: 128, R: 2, S: 2, Y: 28, X: 28", "TRCONV"))))
    (layer,) = graph.layers

    assert layer.macs == 28 * 28 * 128 * 64 * 4
    assert layer.output_rows == 56
    assert layer.row_stride == 0.5
    assert "TRCONV without a Stride" in graph.warnings[0]


def test_a_filter_larger_than_its_map_has_one_position(table):
    graph = load_model(table(_network(_layer("deep", "K: 2, C: 3, R: 5, S: 5, Y: 5, X: 4"))))

    assert graph.macs == 2 * 3 * 25
    assert "read as one position" in graph.warnings[0]


def test_a_dataflow_is_passed_over_aloud(table):
    more = "Dataflow { SpatialMap(1,1) K; TemporalMap(Sz(R),1) Y'; Cluster(8, P); }"
    graph = load_model(table(_network(_layer("c", "K: 2, C: 3, R: 1, S: 1, Y: 5, X: 4", "CONV", more))))

    assert graph.macs == 2 * 3 * 20
    assert "Dataflow" in graph.warnings[0]


def test_one_of_several_networks_is_picked_by_name(table):
    layer = _layer("c", "K: 2, C: 3, R: 1, S: 1, Y: 5, X: 4")
    path = table(_network(layer, name="First") + _network(layer, layer, name="Second"), "two.m")

    assert len(load_model(f"{path}#Second").layers) == 2
    with pytest.raises(
        HeadwayError, match=r"two.m: it holds several networks: First, Second; .* two.m#First"
    ):
        load_model(path)
    with pytest.raises(HeadwayError, match="no network named 'Third'"):
        load_model(f"{path}#Third")


def test_equal_names_are_told_apart(table):
    layer = _layer("c", "K: 3, C: 3, R: 1, S: 1, Y: 5, X: 4")
    names = [found.name for found in load_model(table(_network(layer, layer))).layers]
    assert names == ["c", "c_1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no Network in it"),
        ("Net {", "net.m:1: found 'Net'"),
        ("Network N {\n", "net.m:1: the file ends within a block"),
        (_network(), "network 'Net' has no layers"),
        (_network(_layer("c", "K: 1", "LSTM")), "net.m:3: layer 'c': Type: LSTM has no counterpart"),
        (_network("  Layer c { Dimensions { K: 1 } }\n"), "layer 'c': Type: missing"),
        (_network(_layer("c", "K: 2, C: 3, R: 1, S: 1, Y: 5")), "layer 'c': Dimensions: missing X"),
        (
            _network(_layer("c", "K: 2, C: 3, R: 1, S: 1, Y: 5, X: 4, Z: 2")),
            "Dimensions.Z has no counterpart",
        ),
        (_network(_layer("c", "K: two, C: 3")), "net.m:5: layer 'c': Dimensions.K: found 'two'"),
        (_network(_layer("c", "K: 2, K: 3")), "Dimensions.K given twice"),
        (_network(_layer("c", "K: 1", "CONV", "Density { I: 0.5 }")), "Density has no counterpart"),
        ("Network N [", "found '['"),
    ],
)
def test_errors_name_line_and_field(table, text, said):
    with pytest.raises(HeadwayError) as caught:
        load_model(table(text))
    assert said in str(caught.value)
