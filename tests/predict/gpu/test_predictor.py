"""What the shipped parameters say, against measured rows and against reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.predict.gpu import known_device, known_devices, shipped_predictor
from headway.predict.gpu.features import KernelClass
from headway.predict.gpu.kernels import bmm, elementwise, layer_norm, linear, softmax


def seconds(kernel, name):
    return float(shipped_predictor().kernels_s([kernel], known_device(name)).middle_s[0])


def test_every_class_has_trees_for_seen_and_unseen_devices():
    predictor = shipped_predictor()
    assert set(predictor.unseen) == set(predictor.seen) == set(KernelClass)
    for margins in predictor.margins.values():
        for low, high in margins.values():
            assert low < 0 < high


def test_a_kernel_does_not_depend_on_those_asked_for_with_it():
    kernels = [bmm(96, 512, 512, 64), softmax(1000, 512), linear(512, 768, 768), elementwise(100, 100)]
    predictor, device = shipped_predictor(), known_device("l4")
    together = predictor.kernels_s(kernels, device)
    backwards = predictor.kernels_s(kernels[::-1], device)
    assert np.array_equal(together.middle_s, backwards.middle_s[::-1])
    assert (together.low_s < together.middle_s).all()
    assert (together.middle_s < together.high_s).all()


def test_launches_of_one_kernel_add_up_and_extrapolation_widens():
    one = linear(512, 768, 768)
    predictor, device = shipped_predictor(), known_device("h100-sxm")
    both = predictor.kernels_s([one, replace(one, count=3), replace(one, extrapolated="a guess")], device)
    assert both.middle_s[1] == pytest.approx(3 * both.middle_s[0])
    assert both.high_s[2] > both.high_s[0]
    assert both.low_s[2] < both.low_s[0]
    assert both.extrapolated.tolist() == [False, False, True]


def test_a_device_described_otherwise_is_not_a_measured_one():
    predictor, device = shipped_predictor(), known_device("t4")
    assert predictor.index_of(device) is not None
    assert predictor.index_of(replace(device, sms=41)) is None
    assert predictor.index_of(known_device("h100-sxm")) is None


@pytest.mark.parametrize(
    "kernel", [linear(8192, 4096, 4096), elementwise(16384, 4096), layer_norm(16384, 4096)]
)
def test_more_work_takes_longer_and_a_faster_device_less(kernel):
    for name in known_devices():
        larger = replace(
            kernel, dims=tuple(2 * size if at == 1 else size for at, size in enumerate(kernel.dims))
        )
        assert seconds(larger, name) > seconds(kernel, name)
    assert seconds(kernel, "h100-sxm") < seconds(kernel, "v100") < seconds(kernel, "p4")


def test_in_a_stream_a_launch_hides_behind_the_kernel_before():
    predictor = shipped_predictor()
    kernels = [linear(8, 64, 64), linear(8192, 4096, 4096), softmax(1, 64), softmax(16384, 4096)]
    for name in known_devices():
        alone = predictor.kernels_s(kernels, known_device(name))
        stream = predictor.stream_s(kernels, known_device(name))
        assert stream.middle_s[[0, 2]] == pytest.approx(alone.middle_s[[0, 2]])
        assert (stream.middle_s[[1, 3]] < alone.middle_s[[1, 3]]).all()
        hidden = alone.middle_s[[1, 3]] - stream.middle_s[[1, 3]]
        assert hidden == pytest.approx(alone.middle_s[[0, 2]])
        assert (stream.low_s < stream.middle_s).all()
        assert (stream.middle_s < stream.high_s).all()
    assert len(predictor.stream_s([], known_device("t4")).middle_s) == 0
