"""Vectors of blocks, segments and pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.models.block_work import BlockWork
from headway.models.operator_class import OperatorClass
from headway.predict.features import (
    EXTENSIVE,
    FEATURE_NAMES,
    FEATURE_VERSION,
    PAIR_NAMES,
    PROBES,
    SEGMENT_NAMES,
    DeviceLimits,
    block_features,
    check_version,
    column,
    pair_features,
    segment_features,
    segments_features,
)

LIMITS = DeviceLimits(flops_s=1e11, bandwidth_bytes_s=1e10, places=2, launch_s=2e-6, cache_bytes=1e7)


@st.composite
def works(draw: st.DrawFn) -> BlockWork:
    kinds = draw(st.lists(st.sampled_from(list(OperatorClass)), min_size=1, max_size=3, unique=True))
    return BlockWork(
        flops=draw(st.integers(0, 10**9)),
        read_bytes=draw(st.integers(1, 10**7)),
        written_bytes=draw(st.integers(1, 10**7)),
        weight_bytes=draw(st.integers(0, 10**7)),
        output_elements=draw(st.floats(1, 1e6)),
        kernels=draw(st.integers(0, 50)),
        footprint_bytes=draw(st.integers(0, 10**8)),
        operator_shares={kind.value: 1 / len(kinds) for kind in kinds},
    )


blocks = st.lists(st.tuples(works(), st.floats(1e-5, 1e-2)), min_size=1, max_size=6)


def vectors(of: list[tuple[BlockWork, float]]) -> np.ndarray:
    return block_features([work for work, _ in of], [seconds for _, seconds in of], LIMITS)


@given(blocks)
def test_many_at_once_are_as_one_by_one(of: list[tuple[BlockWork, float]]) -> None:
    together = vectors(of)
    assert together.shape == (len(of), len(FEATURE_NAMES))
    assert np.isfinite(together).all()
    np.testing.assert_array_equal(together, np.vstack([vectors([one]) for one in of]))
    ranges = [(first, end) for first in range(len(of)) for end in range(first + 1, len(of) + 1)]
    segments = segments_features(together, ranges)
    for (first, end), row in zip(ranges, segments, strict=True):
        np.testing.assert_array_equal(row, segment_features(together, first, end))
    pairs = pair_features(segments, segments[0])
    for row, segment in zip(pairs, segments, strict=True):
        np.testing.assert_array_equal(row, pair_features(segment, segments[0])[0])


@given(blocks, blocks)
def test_a_pair_has_no_order(
    one: list[tuple[BlockWork, float]], other: list[tuple[BlockWork, float]]
) -> None:
    a, b = segment_features(vectors(one)), segment_features(vectors(other))
    pair = pair_features(a, b)
    assert pair.shape == (1, len(PAIR_NAMES))
    np.testing.assert_array_equal(pair, pair_features(b, a))
    assert 0 < pair[0, PAIR_NAMES.index("seconds_ratio")] <= 1


def test_a_pair_of_other_work_has_another_vector() -> None:
    a = BlockWork(10**8, 10**5, 10**5, 0, 1e4, 3, 10**5, {"matmul": 1.0})
    b = BlockWork(10**5, 10**7, 10**7, 0, 1e4, 3, 10**7, {"movement": 1.0})
    both = vectors([(a, 2e-3), (b, 2e-3)])
    same, mixed = (
        pair_features(segment_features(both[[0]]), segment_features(both[[at]]))[0] for at in (0, 1)
    )
    at = PAIR_NAMES.index("difference_m")
    assert same[at] == 0
    assert mixed[at] == pytest.approx((2e7 - 2e5) / (2e-3 * 1e10))


@given(works(), st.floats(1e-5, 1e-2))
def test_a_segment_of_one_block_is_the_block(work: BlockWork, seconds: float) -> None:
    block = vectors([(work, seconds)])
    segment = segment_features(block)
    count = len(FEATURE_NAMES)
    assert segment[0] == pytest.approx(np.log(seconds))
    np.testing.assert_allclose(segment[1 : 1 + count], block[0], rtol=1e-12)
    np.testing.assert_array_equal(segment[1 + count :], block[0])


@given(st.integers(1, 10**8), st.integers(1, 10**6), st.integers(1, 20), st.floats(1e-4, 1e-2))
def test_two_equal_halves_are_as_the_block(flops: int, sent: int, kernels: int, seconds: float) -> None:
    half = BlockWork(flops, sent, sent, sent, 500.0, kernels, 4 * sent, {"matmul": 0.5, "elementwise": 0.5})
    double = BlockWork(
        2 * flops, 2 * sent, 2 * sent, 2 * sent, 500.0, 2 * kernels, 8 * sent, half.operator_shares
    )
    halves = segment_features(vectors([(half, seconds / 2), (half, seconds / 2)]))
    block = segment_features(vectors([(double, seconds)]))
    scale_free = [
        index
        for index, name in enumerate(SEGMENT_NAMES)
        if name.removeprefix("mean_").removeprefix("max_") not in EXTENSIVE
    ]
    assert len(scale_free) > len(SEGMENT_NAMES) / 2
    np.testing.assert_allclose(halves[scale_free], block[scale_free], rtol=1e-9)


def test_formulas_of_a_block() -> None:
    work = BlockWork(10**8, 10**6, 2 * 10**6, 10**6, 2048.0, 5, 10**7, {"matmul": 0.75, "movement": 0.25})
    row = block_features([work], [1e-2], LIMITS, cut_bytes=[None], slowdowns=[{"memory": 1.5}])[0]
    assert row[column("f")] == pytest.approx(1e8 / (1e-2 * 1e11))
    assert row[column("m")] == pytest.approx(4e6 / (1e-2 * 1e10))
    assert row[column("log_intensity")] == pytest.approx(np.log(25))
    assert row[column("o")] == pytest.approx(0.5)
    assert row[column("g")] == pytest.approx(5 * 2e-6 / 1e-2)
    assert row[column("share_matmul")] == 0.75
    assert row[column("share_convolution")] == 0
    assert row[column("log_cut_bytes")] == 0
    assert [row[column(f"p_{probe}")] for probe in PROBES] == [1.0, 1.5, 1.0]


def test_mistakes_are_named() -> None:
    work = BlockWork(1, 1, 1, 1, 1.0, 1, 1, {})
    with pytest.raises(HeadwayError, match="seconds that are 0"):
        block_features([work], [0.0], LIMITS)
    with pytest.raises(HeadwayError, match="1 blocks with seconds of shape"):
        block_features([work], [1.0, 2.0], LIMITS)
    with pytest.raises(HeadwayError, match=f"version 0; accepted: {FEATURE_VERSION}"):
        check_version(FEATURE_VERSION - 1, "parameters")
    check_version(FEATURE_VERSION, "parameters")
    with pytest.raises(HeadwayError, match="flops_s = 0"):
        DeviceLimits(0.0, 1.0, 1, 0.0, 1.0)
    with pytest.raises(HeadwayError, match="segment from block 0 to 3"):
        segment_features(vectors([(work, 1.0)]), 0, 3)
    with pytest.raises(HeadwayError, match="accepted: log_seconds, f, m"):
        column("flops")
    with pytest.raises(HeadwayError, match="segment vectors of shapes"):
        pair_features(np.zeros((2, len(SEGMENT_NAMES))), np.zeros((3, len(SEGMENT_NAMES))))
