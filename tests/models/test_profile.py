"""Profiles survive the way to a file and back; anything else is refused with its place named."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.errors import HeadwayError
from headway.models.profile import FORMAT, BlockProfile, DeviceProfile, ModelProfile, Timing

BLOCK = BlockProfile(
    "block 0", "aa", 4096, ("Conv", "Relu"), {1: Timing.of([2e-3, 1e-3]), 2: Timing.of([1e-3])}
)
PROFILE = ModelProfile(
    model="resnet50[batch=1]",
    content_hash="cc",
    machine="somewhere",
    runtime="onnxruntime 1.32.0",
    positions=(3,),
    blocks=(BLOCK, BLOCK),
    whole_seconds={2: Timing.of([2e-3]), 1: Timing.of([3e-3])},
    boundary_share={1: -0.01, 2: 0.02},
    private_bytes={1: 1024, 2: None},
    intake_s=0.8,
    notes=("one note",),
)
DEVICE = DeviceProfile("somewhere", "onnxruntime 1.32.0", 2, 3e-5, 1e-5, 0.4)


def test_a_model_profile_comes_back_as_it_was() -> None:
    assert ModelProfile.from_json(PROFILE.to_json()) == PROFILE


def test_a_device_profile_comes_back_as_it_was() -> None:
    assert DeviceProfile.from_json(DEVICE.to_json().encode()) == DEVICE


def test_seconds_are_medians_at_a_width() -> None:
    assert PROFILE.widths == (1, 2)
    assert PROFILE.seconds(1) == (1.5e-3, 1.5e-3)
    with pytest.raises(HeadwayError, match=r"not profiled with 4 threads; accepted: 1, 2"):
        PROFILE.seconds(4)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=60))
def test_the_percentile_is_the_least_sample_that_enough_do_not_exceed(samples: list[float]) -> None:
    timing = Timing.of(samples)
    assert sum(sample <= timing.p95_s for sample in samples) >= 0.95 * len(samples)
    lower = [sample for sample in samples if sample < timing.p95_s]
    assert len(lower) < 0.95 * len(samples)
    assert timing.samples_s == tuple(samples)


def test_no_samples_are_no_timing() -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        Timing.of([])


def test_another_format_is_refused() -> None:
    data = json.loads(PROFILE.to_json())
    data["format"] = FORMAT + 1
    with pytest.raises(HeadwayError, match=rf"^file.json: format {FORMAT + 1}; accepted: {FORMAT}$"):
        ModelProfile.from_json(json.dumps(data), "file.json")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[]", "format None"),
        (b"\xff\x00", "not JSON"),
        (PROFILE.to_json().replace('"cut_bytes": 4096', '"cut_bytes": "many"'), "blocks.0.cut_bytes"),
        (DEVICE.to_json(), "model: Field required"),
    ],
)
def test_what_is_no_profile_is_refused_with_its_place(text: str | bytes, told: str) -> None:
    with pytest.raises(HeadwayError, match=told) as caught:
        ModelProfile.from_json(text, "file.json")
    assert str(caught.value).startswith("file.json: ")
