"""Systolic closed forms against SCALE-Sim 3.0.0, and what must hold for any product."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.device import Dataflow
from headway.cost import conv_gemm, systolic_cycles
from headway.cost.dataflow import array_accesses

# Reported by SCALE-Sim 3.0.0 (or its closed form where a run took over 40 s): name, M, N, K, and compute
# cycles on 32x32 arrays, output stationary and weight stationary.
GEMMS = (
    ("qkv_proj_L128", 128, 768, 768, (79679, 127871)),
    ("qk_head_L128", 128, 128, 64, (2015, 1775)),
    ("av_head_L128", 128, 64, 128, (1519, 1775)),
    ("ffn1_L128", 128, 3072, 768, (318719, 511487)),
    ("ffn2_L128", 128, 768, 3072, (300863, 511487)),
    ("square_256", 256, 256, 256, (20351, 22399)),
    ("gemv_1x1000x2048", 1, 1000, 2048, (67519, 194559)),
    ("odd_100x70x33", 100, 70, 33, (1139, 1163)),
)
# ResNet-18, as above, cycles on 32x32 OS and WS and on 128x128 OS and WS; then padded input height and width,
# filter, channels in and out, and stride; then the true M, and the cycles at the true M.
CONVOLUTIONS = (
    (
        "conv1",
        12769,
        64,
        147,
        (167199, 128629, 40099, 26301),
        (230, 230, 7, 7, 3, 64, 2),
        12544,
        (163855, 126379, 39297, 25851),
    ),
    (
        "layer1_1_conv1",
        3136,
        64,
        576,
        (125047, 116279, 20749, 17589),
        (58, 58, 3, 3, 64, 64, 1),
        3136,
        (125047, 116279, 20749, 17589),
    ),
    (
        "layer1_1_conv2",
        3136,
        64,
        576,
        (125047, 116279, 20749, 17589),
        (58, 58, 3, 3, 64, 64, 1),
        3136,
        (125047, 116279, 20749, 17589),
    ),
    (
        "layer1_2_conv1",
        3136,
        64,
        576,
        (125047, 116279, 20749, 17589),
        (58, 58, 3, 3, 64, 64, 1),
        3136,
        (125047, 116279, 20749, 17589),
    ),
    (
        "layer1_2_conv2",
        3136,
        64,
        576,
        (125047, 116279, 20749, 17589),
        (58, 58, 3, 3, 64, 64, 1),
        3136,
        (125047, 116279, 20749, 17589),
    ),
    (
        "layer2_1_conv1",
        841,
        128,
        576,
        (68903, 67319, 5809, 6114),
        (58, 58, 3, 3, 64, 128, 2),
        784,
        (63799, 63215, 5809, 5829),
    ),
    (
        "layer2_1_conv2",
        784,
        128,
        1152,
        (121399, 126431, 9841, 10493),
        (30, 30, 3, 3, 128, 128, 1),
        784,
        (121399, 126431, 9841, 10493),
    ),
    (
        "layer2_1_down",
        841,
        128,
        64,
        (13607, 7479, 2225, 1222),
        (56, 56, 1, 1, 64, 128, 2),
        784,
        (12599, 7023, 2225, 1165),
    ),
    (
        "layer2_2_conv1",
        784,
        128,
        1152,
        (121399, 126431, 9841, 10493),
        (30, 30, 3, 3, 128, 128, 1),
        784,
        (121399, 126431, 9841, 10493),
    ),
    (
        "layer2_2_conv2",
        784,
        128,
        1152,
        (121399, 126431, 9841, 10493),
        (30, 30, 3, 3, 128, 128, 1),
        784,
        (121399, 126431, 9841, 10493),
    ),
    (
        "layer3_1_conv1",
        225,
        256,
        1152,
        (77695, 91871, 5623, 10925),
        (30, 30, 3, 3, 128, 256, 2),
        196,
        (67983, 83519, 5623, 10403),
    ),
    (
        "layer3_1_conv2",
        196,
        256,
        2304,
        (132495, 167039, 10231, 20807),
        (16, 16, 3, 3, 256, 256, 1),
        196,
        (132495, 167039, 10231, 20807),
    ),
    (
        "layer3_1_down",
        225,
        256,
        128,
        (12159, 10207, 1527, 1213),
        (28, 28, 1, 1, 128, 256, 2),
        196,
        (10639, 9279, 1527, 1155),
    ),
    (
        "layer3_2_conv1",
        196,
        256,
        2304,
        (132495, 167039, 10231, 20807),
        (16, 16, 3, 3, 256, 256, 1),
        196,
        (132495, 167039, 10231, 20807),
    ),
    (
        "layer3_2_conv2",
        196,
        256,
        2304,
        (132495, 167039, 10231, 20807),
        (16, 16, 3, 3, 256, 256, 1),
        196,
        (132495, 167039, 10231, 20807),
    ),
    (
        "layer4_1_conv1",
        64,
        512,
        2304,
        (75711, 182015, 10231, 32111),
        (16, 16, 3, 3, 256, 512, 2),
        49,
        (75711, 164735, 10231, 31031),
    ),
    (
        "layer4_1_conv2",
        49,
        512,
        4608,
        (149439, 329471, 19447, 62063),
        (9, 9, 3, 3, 512, 512, 1),
        49,
        (149439, 329471, 19447, 62063),
    ),
    (
        "layer4_1_down",
        64,
        512,
        256,
        (10175, 20223, 2039, 3567),
        (14, 14, 1, 1, 256, 512, 2),
        49,
        (10175, 18303, 2039, 3447),
    ),
    (
        "layer4_2_conv1",
        49,
        512,
        4608,
        (149439, 329471, 19447, 62063),
        (9, 9, 3, 3, 512, 512, 1),
        49,
        (149439, 329471, 19447, 62063),
    ),
    (
        "layer4_2_conv2",
        49,
        512,
        4608,
        (149439, 329471, 19447, 62063),
        (9, 9, 3, 3, 512, 512, 1),
        49,
        (149439, 329471, 19447, 62063),
    ),
    (
        "fc",
        1,
        1000,
        512,
        (18367, 48639, 6127, 12255),
        (1, 1, 1, 1, 512, 1000, 1),
        1,
        (18367, 48639, 6127, 12255),
    ),
)
ARRAYS = (
    (32, 32, Dataflow.OUTPUT_STATIONARY),
    (32, 32, Dataflow.WEIGHT_STATIONARY),
    (128, 128, Dataflow.OUTPUT_STATIONARY),
    (128, 128, Dataflow.WEIGHT_STATIONARY),
)


@pytest.mark.parametrize("row", GEMMS, ids=lambda row: row[0])
def test_gemms_equal_scalesim(row):
    _, M, N, K, cycles = row
    for array, expected in zip(ARRAYS[:2], cycles, strict=True):
        assert systolic_cycles(M, N, K, *array) == expected


@pytest.mark.parametrize("row", CONVOLUTIONS, ids=lambda row: row[0])
def test_convolutions_equal_scalesim(row):
    _, M, N, K, cycles, dims, true_m, true_cycles = row
    height, width, filter_height, filter_width, channels_in, channels_out, stride = dims
    shape = (height, width, filter_height, filter_width, channels_in, channels_out, stride)
    assert conv_gemm(*shape, convention="scalesim") == (M, N, K)
    assert conv_gemm(*shape) == (true_m, N, K)
    for array, theirs, true in zip(ARRAYS, cycles, true_cycles, strict=True):
        assert systolic_cycles(M, N, K, *array) == theirs
        assert systolic_cycles(true_m, N, K, *array) == true


def test_totals_equal_scalesim_computed_for_all_layers_at_once():
    M, N, K = (np.array([row[i] for row in CONVOLUTIONS]) for i in (1, 2, 3))
    totals = [int(systolic_cycles(M, N, K, *array).sum()) for array in ARRAYS]
    assert totals == [2_154_003, 2_890_321, 275_233, 444_153]
    M, N, K = (np.array([row[i] for row in GEMMS]) for i in (1, 2, 3))
    totals = [int(systolic_cycles(M, N, K, *array).sum()) for array in ARRAYS]
    assert totals == [791_804, 1_372_516, 72_051, 218_310]


def test_sram_reads_equal_scalesim():
    # qkv_proj_L128 on 32x32: 2,359,296 input and 2,359,296 filter reads (OS); 2,359,296 and 589,824 (WS),
    # with 2,359,296 partial sums written and all but the first fold's read back.
    outputs = 128 * 768
    os = array_accesses(128, 768, 768, 32, 32, Dataflow.OUTPUT_STATIONARY)
    ws = array_accesses(128, 768, 768, 32, 32, Dataflow.WEIGHT_STATIONARY)
    assert os - outputs == 2_359_296 + 2_359_296
    assert ws == 2_359_296 + 589_824 + 2_359_296 + (2_359_296 - outputs)


def test_rows_and_columns_of_an_array_that_is_not_square():
    # By hand, R = 2 and C = 8. OS: 2 x 2 folds of K + R + C - 2 = 13. WS: 3 x 2 folds of M + 2R + C - 2 = 14.
    assert systolic_cycles(4, 9, 5, 2, 8, Dataflow.OUTPUT_STATIONARY) == 2 * 2 * 13 - 1
    assert systolic_cycles(4, 9, 5, 2, 8, Dataflow.WEIGHT_STATIONARY) == 3 * 2 * 14 - 1


# Further runs of SCALE-Sim 3.0.0, on 24 rows and 40 columns: M, N, K, cycles and the words read of inputs and
# weights and written of outputs.
INPUT_STATIONARY = (
    (784, 128, 256, 47_079, (200_704, 655_360, 1_103_872)),
    (225, 256, 128, 12_311, (28_800, 196_608, 345_600)),
    (1, 1000, 2048, 93_395, (2_048, 2_048_000, 86_000)),
    (784, 1, 9, 1_739, (7_056, 180, 784)),
    (42, 19, 105, 1_049, (4_410, 3_990, 3_990)),
    (3, 900, 33, 1_971, (99, 29_700, 5_400)),
)


@pytest.mark.parametrize("row", INPUT_STATIONARY)
def test_input_stationary_equals_scalesim(row):
    M, N, K, cycles, words = row
    array = (24, 40, Dataflow.INPUT_STATIONARY)
    assert systolic_cycles(M, N, K, *array) == cycles
    read_back = words[2] - M * N
    assert array_accesses(M, N, K, *array) == sum(words) + read_back


def test_groups_run_one_after_the_other():
    one = systolic_cycles(49, 1, 9, 32, 32, Dataflow.OUTPUT_STATIONARY)
    assert systolic_cycles(49, 1, 9, 32, 32, Dataflow.OUTPUT_STATIONARY, products=64) == 64 * (one + 1) - 1


def test_unknown_convention_is_refused():
    with pytest.raises(ValueError, match="scalesim"):
        conv_gemm(8, 8, 3, 3, 1, 1, convention="timeloop")


SIZES = st.integers(1, 600)


@settings(deadline=None, max_examples=60)
@given(SIZES, SIZES, SIZES, st.integers(1, 64), st.integers(1, 64), st.sampled_from(Dataflow))
def test_an_array_is_never_faster_than_its_units(M, N, K, rows, columns, dataflow):
    steps = systolic_cycles(M, N, K, rows, columns, dataflow) + 1
    assert steps * rows * columns >= M * N * K


@settings(deadline=None, max_examples=60)
@given(SIZES, SIZES, SIZES, st.integers(1, 600), st.sampled_from(Dataflow))
def test_tiles_of_rows_take_no_less_than_the_whole(M, N, K, height, dataflow):
    whole = systolic_cycles(M, N, K, 16, 8, dataflow) + 1
    tiles = [min(height, M - top) for top in range(0, M, height)]
    assert sum(systolic_cycles(tile, N, K, 16, 8, dataflow) + 1 for tile in tiles) >= whole
