"""Clients that others wrote, and a server in a process of its own: models, keys, the control port."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from clients import LOADGEN, TRITON, perf_analyzer_counts, run_file, run_perf_analyzer, run_program
from test_batches import WIDTH, rows_model
from test_cli_serve import Serving

from headway.serve.keys import hash_of, new_key

MLPERF = Path(__file__).parents[2] / "bench" / "peers" / "mlperf.py"
KEYS = {name: new_key() for name in ("web", "shop", "batch", "hasty")}
CONTROL = new_key()
LIMITS: dict[str, Any] = {"hasty": {"rate": "1 /h", "burst": 1}}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("process")
    root = folder / "models"
    for name, model in (("lookup", tiny_models.lookup()), ("sums", tiny_models.lookup())):
        tiny_models.put(root, name, 1, model)
    tiny_models.put(root, "lookup", 2, tiny_models.lookup(2.0))
    tiny_models.put(root, "exclaim", 1, tiny_models.exclaim())
    tiny_models.put(root, "spin", 1, tiny_models.spin())
    tiny_models.put(root, "rows", 1, rows_model())
    (root / "rows" / "headway.yaml").write_text("batching: {max_size: 4, delay: 20 ms}\n")
    (root / "lookup" / "names.txt").write_text("\n".join(f"class-{i}" for i in range(8)))
    (root / "lookup" / "headway.yaml").write_text("labels: {y: names.txt}\nversion_policy: {all: {}}\n")
    config = {
        "hardware": {"name": "one-lane", "lanes": {"count": 1, "threads_per_lane": 1}},
        "listen": {"http": 0, "grpc": 0, "control": 0},
        "control_keys": [hash_of(CONTROL)],
        "repository": {"path": "models"},
        "tenants": [
            {"name": name, "keys": [hash_of(key)], "sla": {"deadline": "2 s"}, **LIMITS.get(name, {})}
            for name, key in KEYS.items()
        ],
    }
    made = Serving(folder, config=config)
    try:
        made.wait_for("^ready$")
        yield made
    finally:
        made.process.terminate()
        made.process.wait(30)
        made.end()


def port(serving: Serving, name: str) -> str:
    """The port that the server said."""
    return serving.wait_for(f"^{name}: ").rsplit(":", 1)[1].strip("/")


@pytest.mark.slow
def test_loadgens_server_scenario_with_an_instance_for_each_tenant(serving: Serving, tmp_path: Path) -> None:
    asked = {"web": ("lookup", 60, 1000), "shop": ("sums", 40, 1000), "batch": ("lookup", 40, 0.01)}
    asked["hasty"] = ("lookup", 40, 50)
    tenants = [f"{name},{model},{KEYS[name]},{qps},{ms}" for name, (model, qps, ms) in asked.items()]
    arguments = [part for tenant in tenants for part in ("--tenant", tenant)]
    printed = run_file(
        LOADGEN,
        MLPERF,
        *("--url", f"127.0.0.1:{port(serving, 'http')}", "--percentile", 90, "--seconds", 2),
        *("--out", tmp_path, *arguments),
    )
    told = {found["tenant"]: found for found in map(json.loads, printed.splitlines())}
    assert {name: found["Result is"] for name, found in told.items()} == {
        "web": "VALID",
        "shop": "VALID",
        "batch": "INVALID",  # nobody answers in 10 us
        "hasty": "INVALID",  # over its rate
    }
    assert told["web"]["Scenario"] == "Server"
    assert told["web"]["refused"] == told["batch"]["refused"] == 0
    assert told["hasty"]["refused"] >= 50
    assert "429" in told["hasty"]["first_refusal"][0]
    served = serving.ask("/v2/models/sums/stats", key=KEYS["shop"])[1]["model_stats"][0]
    assert served["inference_count"] >= 50


@pytest.mark.slow
def test_tritonclient_with_a_process(serving: Serving) -> None:
    ports = [port(serving, name) for name in ("http", "grpc", "control")]
    printed = run_program(TRITON, "triton_process.py", *ports, KEYS["web"], KEYS["hasty"], CONTROL)
    assert printed.endswith("done\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "grpc", "streaming"])
def test_perf_analyzer_at_a_rate_with_a_tenants_key(serving: Serving, way: str) -> None:
    by = "http" if way == "http" else "grpc"
    arguments = ["-m", "sums", "-i", by, "-u", f"127.0.0.1:{port(serving, by)}", "--input-data", "zero"]
    arguments += [
        "--request-rate-range",
        "40:40:1",
        "--request-distribution",
        "poisson",
        "--percentile",
        "95",
    ]
    arguments += [
        "--request-count",
        "60",
        "-H",
        f"{'x-api-key' if by == 'grpc' else 'X-API-Key'}:{KEYS['shop']}",
    ]
    told = run_perf_analyzer(*arguments, *(["--streaming"] if way == "streaming" else []))
    assert perf_analyzer_counts(told) == (60, pytest.approx(60, abs=2)), told


@pytest.mark.slow
@pytest.mark.parametrize(("way", "rows"), [("http", 1), ("grpc", 2)])
def test_perf_analyzer_against_a_model_that_batches(serving: Serving, way: str, rows: int) -> None:
    """Four at once, of one row each or of two; whether they run together is up to the policy."""
    arguments = ["-m", "rows", "-i", way, "-u", f"127.0.0.1:{port(serving, way)}", "-b", str(rows)]
    arguments += ["--shape", f"x:{WIDTH}", "--concurrency-range", "4:4:1", "--request-count", "60"]
    arguments += ["-H", f"{'x-api-key' if way == 'grpc' else 'X-API-Key'}:{KEYS['shop']}"]
    told = run_perf_analyzer(*arguments)
    assert f"Batch size: {rows}" in told
    requests, inferences = perf_analyzer_counts(told)
    assert requests == 60
    assert inferences == pytest.approx(60 * rows, abs=5 * rows)  # some are under way between its windows
    ran = serving.ask("/v2/models/rows/stats", key=KEYS["shop"])[1]["model_stats"][0]
    assert ran["execution_count"] == sum(each["compute_infer"]["count"] for each in ran["batch_stats"])
    assert {each["batch_size"] for each in ran["batch_stats"]} <= {1, 2, 3, 4}
