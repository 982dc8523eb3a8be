"""A small suite and a small scenario, as files."""

from __future__ import annotations

from pathlib import Path

import pytest

SUITE = """\
name: tiny
models:
  - {name: small, tenants: [kws_res8, {model: kws_res8, name: other}]}
hardware: [{preset: stream-hetero4, dram: {bandwidth: 2 GB/s}, name: slow-memory}]
base: {isolated: 1.2}
loads: [0.6, 12.0]
requests: 60
seeds: [1, 2]
policies: [fcfs, lucas]
"""

SCENARIO = """\
name: small
seed: 3
hardware: {preset: stream-hetero4, dram: {bandwidth: 2 GB/s}}
requests: 120
policy: edf
tenants:
  - name: quick
    model: kws_res8
    sla: {isolated: 2, percentile: 95}
    arrivals: {process: poisson, rate: 10000 /s}
  - name: patient
    model: kws_res8
    sla: {isolated: 12, percentile: 90}
    arrivals: {process: poisson, rate: 10000 /s}
"""


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    """Two cells, two seeds, two policies: eight runs of 60 requests."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """Two tenants of one model, one of them in a hurry."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path
