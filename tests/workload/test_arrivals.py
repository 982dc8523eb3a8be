"""Arrival times: the stated mean rate, in order, and each tenant's own whatever else there is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import TypeAdapter

from headway.config.arrivals import Arrivals, Closed
from headway.workload import arrivals
from headway.workload.arrivals import arrival_times, stream, think_time_s

PROCESSES: dict[str, dict[str, Any]] = {
    "poisson": {"rate": "50 /s"},
    "uniform": {"rate": "50 /s"},
    "mmpp": {"rate": "50 /s", "mean_on": "100 ms", "mean_off": "300 ms"},
    "periodic": {"rate": "50 /s", "jitter": "10 ms"},
}


def process(name: str, **changes: Any) -> Any:
    parameters = PROCESSES.get(name, {}) | changes
    return TypeAdapter(Arrivals).validate_python({"process": name} | parameters)


def times(
    name: str, number: int, seed: int = 0, tenant: str = "camera", **changes: Any
) -> NDArray[np.float64]:
    endless = arrival_times(process(name, **changes), seed, tenant)
    return np.fromiter(itertools.islice(endless, number), float, number)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(sorted(PROCESSES)),
    st.integers(0, 2**63 - 1),
    st.floats(0.01, 1e5),
)
def test_in_order_and_not_before_zero(name: str, seed: int, rate: float) -> None:
    gap = f"{1 / rate!r} s"
    changes = {"mmpp": {"mean_on": gap, "mean_off": gap}, "periodic": {"jitter": f"{0.5 / rate!r} s"}}
    found = times(name, 3000, seed, rate=f"{rate * 0.999!r} /s", **changes.get(name, {}))
    assert found[0] >= 0
    assert (np.diff(found) >= 0).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", sorted(PROCESSES))
@pytest.mark.parametrize("rate", ["0.5 /s", "50 /s", "900 /s"])
def test_mean_rate(name: str, rate: str) -> None:
    changes = {"periodic": {"jitter": "0 s"}, "mmpp": {"mean_on": "10 ms", "mean_off": "30 ms"}}.get(name, {})
    expected = process(name, rate=rate, **changes).mean_rate
    number = 100_000
    # Standard errors: 0.3 % for Poisson; for bursts up to 0.9 %, from sqrt(2 p (1 - p) (on - off)^2 t / T)
    # with p = 0.25, t = 7.5 ms, T = 111 s.
    tolerance = 0.03 if name == "mmpp" else 0.012
    assert number / times(name, number, rate=rate, **changes)[-1] == pytest.approx(expected, rel=tolerance)


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(times("poisson", 100_000))
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)
    assert np.mean(gaps > 0.02) == pytest.approx(np.exp(-1), abs=0.01)
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.02


def test_uniform_gaps_are_even() -> None:
    gaps = np.diff(times("uniform", 100_000))
    assert gaps.max() <= 0.04
    assert gaps.std() == pytest.approx(0.04 / np.sqrt(12), rel=0.02)


def test_bursts() -> None:
    # Long phases, so that counts in windows far shorter than a phase show the two rates.
    found = times("mmpp", 200_000, rate="100 /s", burst_ratio=4, mean_on="20 s", mean_off="20 s")
    counts = np.bincount(found.astype(int))
    low, high = 40.0, 160.0  # 2/(1 + 4) x 100 /s and four times that
    near = [np.mean(np.abs(counts - rate) < 4 * np.sqrt(rate)) for rate in (low, high)]
    assert near[0] == pytest.approx(0.5, abs=0.1)
    assert near[1] == pytest.approx(0.5, abs=0.1)
    assert sum(near) > 0.9


def test_a_burst_ratio_of_one_is_poisson() -> None:
    gaps = np.diff(times("mmpp", 100_000, burst_ratio=1))
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.02)


def test_bursts_are_stationary() -> None:
    # If it always began with an on phase, the first moments would be busier than the rest.
    firsts = [times("mmpp", 200, seed, rate="100 /s", mean_on="1 s", mean_off="3 s") for seed in range(400)]
    early = np.mean([np.sum(found < 0.5) for found in firsts])
    assert early == pytest.approx(50, rel=0.1)


def test_periodic_without_jitter() -> None:
    found = times("periodic", 3000, jitter="0 s", phase="5 ms")
    assert found == pytest.approx(0.005 + 0.02 * np.arange(3000))


def test_periodic_jitter_stays_with_its_frame() -> None:
    found = times("periodic", 3000, jitter="4 ms", phase="10 ms")
    offset = found - (0.01 + 0.02 * np.arange(3000))
    assert np.abs(offset).max() <= 0.004 + 1e-9
    assert offset.std() == pytest.approx(0.008 / np.sqrt(12), rel=0.05)


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_seed_and_tenant_decide_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = times(name, 3000)
    assert (times(name, 3000) == found).all()
    assert not (times(name, 3000, seed=1) == found).all()
    assert not (times(name, 3000, tenant="other") == found).all()
    monkeypatch.setattr(arrivals, "CHUNK", 64)
    assert times(name, 3000) == pytest.approx(found, rel=1e-12)


def test_streams_are_named_apart() -> None:
    def draw(*names: str | int) -> float:
        return float(stream(0, *names).random())

    names: list[tuple[str | int, ...]] = [
        ("a", "b"),
        ("ab",),
        ("a", "b", ""),
        ("a", 1),
        ("a", "1"),
        ("b", "a"),
        (),
    ]
    assert len({draw(*each) for each in names}) == len(names)


def test_streams_are_the_same_on_every_machine() -> None:
    # Recorded once: seeds in published results must keep their meaning.
    assert stream(7, "arrivals", "camera").random(2).tolist() == [0.4629425503874013, 0.42977090909187143]


def test_think_times() -> None:
    exponential = process("closed", clients=4, think_time="10 ms")
    assert isinstance(exponential, Closed)
    drawn = np.array(
        [think_time_s(exponential, 0, "a", client, turn) for client in range(4) for turn in range(500)]
    )
    assert drawn.mean() == pytest.approx(0.01, rel=0.1)
    assert len(set(drawn)) == len(drawn)
    fixed = process("closed", clients=4, think_time="10 ms", think="fixed")
    assert [think_time_s(fixed, 0, "a", client, 0) for client in range(4)] == [0.0, 0.0025, 0.005, 0.0075]
    assert think_time_s(fixed, 0, "a", 2, 1) == 0.01
