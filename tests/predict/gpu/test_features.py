"""Features of kernels are ratios."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.predict.gpu.devices import known_device
from headway.predict.gpu.features import KernelClass, features_of

SIZES = st.integers(1, 4096)
DIMENSIONS = {
    KernelClass.BMM: 4,
    KernelClass.LINEAR: 4,
    KernelClass.CONV: 6,
    KernelClass.ELEMENTWISE: 3,
    KernelClass.SOFTMAX: 3,
    KernelClass.LAYER_NORM: 3,
}


@pytest.mark.parametrize("kernel_class", list(KernelClass))
@given(data=st.data())
def test_a_row_does_not_depend_on_its_neighbours(kernel_class, data):
    width = DIMENSIONS[kernel_class]
    dims = np.array(data.draw(st.lists(st.tuples(*[SIZES] * width), min_size=2, max_size=5)), float)
    together = features_of(kernel_class, known_device("v100"), dims)
    assert np.isfinite(together.columns).all()
    assert (together.bound_s > 0).all()
    for at in range(len(dims)):
        alone = features_of(kernel_class, known_device("v100"), dims[at : at + 1])
        assert np.array_equal(alone.columns[0], together.columns[at])


def test_a_device_twice_as_large_with_twice_the_work_looks_the_same():
    small = known_device("v100")
    large = replace(
        small,
        bandwidth_gb_s=2 * small.bandwidth_gb_s,
        sms=2 * small.sms,
        fp32_gflops=2 * small.fp32_gflops,
        l2_mb=2 * small.l2_mb,
        power_w=2 * small.power_w,
    )
    one = features_of(KernelClass.BMM, small, np.array([[40.0, 256, 256, 64]]))
    two = features_of(KernelClass.BMM, large, np.array([[80.0, 256, 256, 64]]))
    assert two.bound_s == pytest.approx(one.bound_s)
    # one product's operand against the whole cache is not scaled: a batch of products does not share it
    kept = [at for at, name in enumerate(one.names) if name != "weights_over_cache"]
    assert two.columns[0, kept] == pytest.approx(one.columns[0, kept])
