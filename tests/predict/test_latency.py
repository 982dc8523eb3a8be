"""Latency before any run: what is learned of a device, and what is drawn to learn it from."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from headway.core.errors import HeadwayError
from headway.models.network_sample import NetworkSample
from headway.models.node_work import NodeWork
from headway.models.operator_class import OperatorClass
from headway.models.prepared import prepare
from headway.models.runtime_session import SessionSettings
from headway.predict.latency import INTERVAL, LATENCY_FORMAT, LatencyModel, shipped_latency
from headway.predict.latency_fit import FEWEST_NETWORKS, fit_latency
from headway.predict.synthetic import FAMILIES, synthetic_network

CALL_S, BEGIN_S = 2e-6, 60e-6


def law(work: NodeWork) -> float:
    """A made-up device: products reach more of its peak the larger they are, all else moves bytes."""
    if work.view:
        return 1e-6
    if work.kind is OperatorClass.MATMUL:
        reached = 60e9 * work.k / (work.k + 100) * work.m / (work.m + 4)
        return 3e-6 + work.flops / reached
    return 3e-6 + work.moved_bytes / 8e9 + work.vector_ops / 4e9


def network(number: int, threads: int = 1) -> NetworkSample:
    """One that the device of `law` ran, with a few percent of noise in its total."""
    rng = np.random.default_rng([number, 7])
    works = []
    for _ in range(int(rng.integers(3, 12))):
        m, n, k = (int(2 ** rng.uniform(0, 10)) for _ in range(3))
        if rng.random() < 0.5:
            works.append(
                NodeWork(
                    OperatorClass.MATMUL, "Gemm", m * n * k, m * n, 4 * m * k, 4 * m * n, 4 * k * n, m * n,
                    m=m, n=n, k=k,
                )
            )  # fmt: skip
        elif rng.random() < 0.8:
            works.append(
                NodeWork(OperatorClass.ELEMENTWISE, "Relu", 0, m * n, 4 * m * n, 4 * m * n, 0, m * n)
            )
        else:
            works.append(
                NodeWork(OperatorClass.MOVEMENT, "Reshape", 0, 0, 4 * m * n, 4 * m * n, 0, m * n, view=True)
            )
    node_s = [law(work) / threads for work in works]
    total_s = (sum(node_s) + CALL_S * len(works) + BEGIN_S) * float(np.exp(rng.normal(0, 0.03)))
    return NetworkSample(number, "made up", threads, tuple(works), tuple(node_s), total_s)


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    samples = [network(number, threads) for number in range(50) for threads in (1, 2)]
    return fit_latency(samples, "a machine", "a runtime", 1e7)


def ratios(model: LatencyModel, samples: Sequence[NetworkSample]) -> np.ndarray:
    return np.array(
        [model.blocks(sample.works, sample.threads)[0].mean_s / sample.total_s for sample in samples]
    )


def test_networks_that_were_not_learned_from_are_predicted(model: LatencyModel) -> None:
    for threads in (1, 2):
        unseen = [network(number, threads) for number in range(1000, 1060)]
        errors = np.abs(ratios(model, unseen) - 1.0)
        assert errors.mean() < 0.1
        # No better than chance would be the roofline with one factor for all.
        assert errors.mean() < 0.5 * np.abs(rooflines(model, unseen) - 1.0).mean()


def rooflines(model: LatencyModel, samples: Sequence[NetworkSample]) -> np.ndarray:
    width = model.width(samples[0].threads)
    bounds = np.array(
        [
            sum(
                max(work.flops / width.flops_s, work.moved_bytes / width.bandwidth_bytes_s)
                for work in sample.works
                if not work.view
            )
            / sample.total_s
            for sample in samples
        ]
    )
    return np.asarray(bounds / np.median(bounds))


def test_the_interval_holds_the_share_that_it_names(model: LatencyModel) -> None:
    unseen = [network(number) for number in range(2000, 2200)]
    inside = 0
    for sample in unseen:
        found = model.blocks(sample.works, 1)[0]
        assert found.low_s < found.mean_s < found.high_s
        inside += found.low_s <= sample.total_s <= found.high_s
    assert inside / len(unseen) == pytest.approx(INTERVAL, abs=0.09)


def test_blocks_add_up_to_the_whole(model: LatencyModel) -> None:
    works = network(3).works
    whole = model.blocks(works, 1)[0]
    blocks = model.blocks(works, 1, range(1, len(works)))
    assert len(blocks) == len(works)
    assert sum(block.mean_s for block in blocks) == pytest.approx(whole.mean_s)
    assert sum(model.node_s(works, 1)) == pytest.approx(whole.mean_s - model.width(1).begin_s)


def test_what_is_written_is_read_again(model: LatencyModel) -> None:
    again = LatencyModel.from_json(model.to_json(), "file")
    works = network(5).works
    np.testing.assert_allclose(again.node_s(works, 2), model.node_s(works, 2), rtol=0.02)
    assert again.limits(2).places == 2
    data = json.loads(model.to_json())
    with pytest.raises(HeadwayError, match=rf"^file: format {LATENCY_FORMAT + 1}"):
        LatencyModel.from_json(json.dumps({**data, "format": LATENCY_FORMAT + 1}), "file")
    data["widths"]["1"]["scale"] = "fast"
    with pytest.raises(HeadwayError, match=r"^file: widths\.1\.scale"):
        LatencyModel.from_json(json.dumps(data), "file")
    with pytest.raises(HeadwayError, match=r"^file: not JSON"):
        LatencyModel.from_json("{", "file")
    data["widths"]["1"]["scale"] = 1.0
    with pytest.raises(HeadwayError, match=r"^file: learned from other features"):
        LatencyModel.from_json(json.dumps({**data, "features": ["size"]}), "file")


def test_limits_of_what_is_known_are_said(model: LatencyModel) -> None:
    with pytest.raises(HeadwayError, match="3 threads: not calibrated; accepted: 1, 2"):
        model.width(3)
    few = [network(number) for number in range(FEWEST_NETWORKS - 1)]
    with pytest.raises(HeadwayError, match=f"{FEWEST_NETWORKS - 1} networks measured with 1 threads"):
        fit_latency(few, "a machine", "a runtime", 1e7)


def test_the_same_samples_teach_the_same() -> None:
    samples = [network(number) for number in range(FEWEST_NETWORKS)]
    first, second = (fit_latency(samples, "", "", 1e7).to_json() for _ in range(2))
    assert first == second


def test_samples_survive_their_line() -> None:
    sample = network(1)
    assert NetworkSample.from_line(sample.to_line(), "line 1") == sample
    with pytest.raises(HeadwayError, match=r"^line 1: "):
        NetworkSample.from_line("{}", "line 1")


def test_parameters_are_shipped() -> None:
    shipped = shipped_latency()
    assert 1 in shipped.widths
    assert shipped.machine
    assert all(seconds > 0 for seconds in shipped.node_s(network(1).works, 1))


@pytest.mark.parametrize("family", sorted(set(FAMILIES)))
def test_synthetic_networks_run_and_differ_by_number(family: str) -> None:
    first, again, other = (synthetic_network(number, family=family) for number in (4, 4, 5))
    assert first.SerializeToString() == again.SerializeToString()
    assert first.SerializeToString() != other.SerializeToString()
    prepared = prepare(first, dims={})
    inputs = prepared.sample()
    (y,) = prepared.whole.open(SessionSettings()).run(None, inputs)
    assert y.size > 0


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(HeadwayError, match="synthetic family 'graph'; accepted: convolutional"):
        synthetic_network(0, family="graph")
