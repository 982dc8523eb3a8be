"""Descriptions of GPUs."""

from __future__ import annotations

import pytest

from headway.core.errors import HeadwayError
from headway.predict.gpu.devices import device_from_mapping, known_device, known_devices

DESCRIBED = {"bandwidth_gb_s": 1000, "sms": 100, "clock_mhz": 1500, "fp32_gflops": 19200, "l2_mb": 32}


def test_every_published_device_is_there_and_has_its_limits():
    devices = known_devices()
    assert {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "h100-sxm", "l4"} <= set(devices)
    assert {"p100", "p4", "t4", "v100"} <= set(devices)
    for device in devices.values():
        assert 0 < device.delivered_bytes_s < device.bandwidth_bytes_s


def test_corrected_entries_say_so():
    assert (known_device("p4").sms, known_device("l4").sms) == (20, 58)
    for name in ("p4", "l4", "p100"):
        assert known_device(name).note


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"sms": None}, "sms"),
        ({"sms": 10.5}, "sms"),
        ({"l2_mb": 0}, "l2_mb"),
        ({"clock_mhz": float("nan")}, "clock_mhz"),
        ({"bandwidth_gb_s": "fast"}, "bandwidth_gb_s"),
        ({"fp32_gflops": True}, "fp32_gflops"),
        ({"tensor_cores": 4}, "tensor_cores"),
        ({"power_w": 300}, "process_nm"),
    ],
)
def test_a_mistake_names_file_and_field(change, named):
    with pytest.raises(HeadwayError, match=f"mine.yaml: .*{named}"):
        device_from_mapping("mine", DESCRIBED | change, "mine.yaml")


def test_a_missing_field_and_an_unknown_name_are_told():
    with pytest.raises(HeadwayError, match="l2_mb: missing"):
        device_from_mapping("mine", {k: v for k, v in DESCRIBED.items() if k != "l2_mb"}, "mine.yaml")
    with pytest.raises(HeadwayError, match=r"'h1000': not known; accepted: .*h100-sxm"):
        known_device("h1000")


def test_power_limits_only_where_it_is_described():
    free = device_from_mapping("mine", DESCRIBED, "mine.yaml")
    bound = device_from_mapping("mine", DESCRIBED | {"power_w": 60, "process_nm": 12}, "mine.yaml")
    assert free.sustained_flops == free.peak_flops
    assert bound.sustained_flops < bound.peak_flops
    short = {name for name, device in known_devices().items() if device.sustained_flops < device.peak_flops}
    assert short == {"l4", "p4", "t4"}
