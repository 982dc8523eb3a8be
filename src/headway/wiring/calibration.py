"""Calibrating this machine: synthetic networks measured once, and what was learned from them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from headway.core.errors import HeadwayError
from headway.live.cache import cache_folder
from headway.live.processors import available, last_cache_bytes, machine, runtime
from headway.live.samples import measured_network
from headway.models.boundary_cost import boundary_cost
from headway.models.even import BlockLimits
from headway.models.network_sample import NetworkSample
from headway.models.node_work import node_works
from headway.models.prepared import prepare
from headway.models.reading import zoo_model
from headway.models.split import split
from headway.models.zoo import names as zoo_names
from headway.predict.latency import INTERVAL, Latency, LatencyModel, shipped_latency
from headway.predict.latency_fit import FEWEST_NETWORKS, fit_latency
from headway.predict.synthetic import FAMILIES, SYNTHETIC_VERSION, synthetic_network

NETWORKS: Final = 280
FAST_NETWORKS: Final = 56

Progress = Callable[[int, int], None]
"""Called with how many measurements are done and how many there are."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What `calibrate` did: where its result lies, and how many measurements are new and were kept before."""

    model: LatencyModel
    path: Path
    measured: int
    kept_before: int


def default_widths() -> tuple[int, ...]:
    """One thread, and as many as this process has processors."""
    return tuple(sorted({1, len(available())}))


def calibrate(
    networks: int = NETWORKS,
    widths: Sequence[int] | None = None,
    out: Path | None = None,
    on_progress: Progress | None = None,
) -> Calibration:
    """Measure synthetic networks on this machine, and learn what it makes of operators.

    Each measurement is kept as soon as it is made; a later call goes on from there.

    Args:
        networks: how many, with each number of threads.
        widths: numbers of threads; `default_widths` unless given.
        out: where the parameters go; None keeps them where predictions look for them.
        on_progress: told of each measurement.

    Raises:
        HeadwayError: too few networks, more threads than processors, or a file that cannot be written.
    """
    there = available()
    threads = default_widths() if widths is None else tuple(sorted(set(widths)))
    if networks < FEWEST_NETWORKS:
        raise HeadwayError(f"networks = {networks}; accepted: at least {FEWEST_NETWORKS}")
    if not threads or threads[0] < 1 or threads[-1] > len(there):
        raise HeadwayError(f"threads = {list(threads)}; accepted: from 1 to the {len(there)} of this process")
    path = calibration_file() if out is None else out
    samples = list(_kept(samples_file()))
    known = {(sample.number, sample.threads) for sample in samples}
    wanted = [(number, width) for number in range(networks) for width in threads]
    missing = [key for key in wanted if key not in known]
    done = len(wanted) - len(missing)
    if on_progress is not None:
        on_progress(done, len(wanted))
    for sample in _measured(missing, there):
        _keep(samples_file(), sample)
        samples.append(sample)
        done += 1
        if on_progress is not None:
            on_progress(done, len(wanted))
    chosen = set(wanted)
    learned = fit_latency(
        [sample for sample in samples if (sample.number, sample.threads) in chosen],
        machine(),
        runtime(),
        float(last_cache_bytes()),
    )
    _write(path, learned.to_json())
    return Calibration(learned, path, len(missing), len(wanted) - len(missing))


def _measured(missing: Sequence[tuple[int, int]], there: Sequence[int]) -> Iterator[NetworkSample]:
    number, prepared = -1, None
    for wanted, width in missing:
        if prepared is None or wanted != number:
            number, prepared = wanted, prepare(synthetic_network(wanted), dims={})
        yield measured_network(prepared, number, FAMILIES[number % len(FAMILIES)], there[:width])


def calibration_file() -> Path:
    """Where this machine's parameters are kept, for this version of ONNX Runtime."""
    return cache_folder() / f"latency-{_digest(machine(), runtime())}.json"


def samples_file() -> Path:
    """Where this machine's measurements are kept, one a line."""
    return cache_folder() / f"calibration-{_digest(machine(), runtime(), SYNTHETIC_VERSION)}.jsonl"


def known_latency() -> tuple[LatencyModel, str]:
    """This machine's parameters, or else those that are shipped; with words on which they are.

    Raises:
        HeadwayError: a file of this machine that is damaged or of another version.
    """
    path = calibration_file()
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        shipped = shipped_latency()
        return shipped, (
            f"not calibrated here, so by what was measured on another machine ({shipped.machine}); "
            "`headway calibrate` measures this one"
        )
    except OSError as error:
        raise HeadwayError(f"{path}: cannot be read: {error.strerror}") from None
    return LatencyModel.from_json(text, str(path)), "as calibrated on this machine"


@dataclass(frozen=True, slots=True)
class PredictedBlock:
    """One block as it would be cut: its operators, work, and predicted latency."""

    operators: tuple[str, ...]
    flops: int
    moved_bytes: int
    latency: Latency


@dataclass(frozen=True, slots=True)
class Prediction:
    """A model's blocks and whole on one lane of so many threads, before any run.

    `interval` is the share of networks, not learned from, that lie between the ends; `basis` says on which
    machine the parameters rest.
    """

    name: str
    threads: int
    blocks: tuple[PredictedBlock, ...]
    total: Latency
    interval: float
    basis: str


def predict_model(
    source: str, threads: int = 1, dims: Mapping[str, int] | None = None, latency: LatencyModel | None = None
) -> Prediction:
    """Predict what a model and its even blocks take alone, without running it.

    Args:
        source: an ONNX file with weights, or a name of the zoo.
        threads: of the lane.
        dims: sizes of symbolic dimensions, or options of a zoo model.
        latency: parameters to use; `known_latency` unless given.

    Raises:
        HeadwayError: a model that cannot be prepared, or a number of threads that was not calibrated.
    """
    known, basis = (latency, "given parameters") if latency is not None else known_latency()
    known.width(threads)  # before the model is optimised, which takes longer
    model: Any = source
    sizes: dict[str, int] = dict(dims or {})
    if not Path(source).exists() and source in zoo_names():
        model, sizes = zoo_model(source, sizes, weights=True), {}
    prepared = prepare(model, dims=sizes)
    works = node_works(prepared)
    node_s = known.node_s(works, threads)
    chain = split(
        prepared,
        threads=threads,
        limits=BlockLimits(),
        node_s=node_s,
        cost=boundary_cost(threads),
        verify=False,
    )
    latencies = known.blocks(works, threads, chain.positions)
    (total,) = known.blocks(works, threads)
    blocks = []
    for block, found in zip(chain.blocks, latencies, strict=True):
        part = works[block.first_node : block.end_node]
        blocks.append(
            PredictedBlock(
                block.ops, sum(work.flops for work in part), sum(work.moved_bytes for work in part), found
            )
        )
    return Prediction(prepared.name, threads, tuple(blocks), total, INTERVAL, basis)


def _digest(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:20]


def _kept(path: Path) -> Iterator[NetworkSample]:
    """Measurements of earlier calls. A last line that was not written to its end is cut off."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    for number, line in enumerate(whole.decode("utf-8", "replace").splitlines(), 1):
        yield NetworkSample.from_line(line, f"{path}, line {number}")


def _keep(path: Path, sample: NetworkSample) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(sample.to_line() + "\n")
    except OSError as error:
        raise HeadwayError(f"{path}: measurements cannot be kept: {error.strerror}") from None


def _write(path: Path, text: str) -> None:
    """Write in one piece, so that an interruption leaves what was there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise HeadwayError(f"{path}: cannot be written: {error.strerror}") from None
