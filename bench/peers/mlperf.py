"""MLPerf's LoadGen against a server of the Open Inference Protocol: its Server scenario, once per tenant.

LoadGen has one model and one latency, and state that is global, so each tenant gets a process of its own, and
all run at once. Needs no Headway, but the package mlcommons-loadgen in the environment that runs it.

    python bench/peers/mlperf.py --url 127.0.0.1:8000 --out out/mlperf \
        --tenant web,camera,hw_web-example,20,60 --tenant batch,search,hw_batch-example,3,2000

A tenant is its name, a model, an API key (may be empty), queries a second, and the latency in milliseconds
that the percentile must keep. What LoadGen says is read from its summary: VALID or INVALID and why. LoadGen
has no word for a refusal, so a refused query is completed only after its latency is over: it counts as late.
Queries are zeros, of models with numbers as inputs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

THREADS = 8
BYTES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "FP16": 2, "BF16": 2, "INT32": 4, "FP32": 4, "INT64": 8, "FP64": 8}


class Tenant(NamedTuple):
    """What one instance of LoadGen asks for."""

    name: str
    model: str
    key: str
    qps: float
    latency_ms: float

    @classmethod
    def of(cls, text: str) -> Tenant:
        parts = text.split(",")
        if len(parts) != 5:
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME,MODEL,KEY,QPS,LATENCY_MS")
        return cls(parts[0], parts[1], parts[2], float(parts[3]), float(parts[4]))


def ask(url: str, method: str, path: str, key: str, body: bytes = b"", head_length: int = 0) -> bytes:
    """One request on a connection of its own; raises OSError for any status but 200."""
    connection = http.client.HTTPConnection(url, timeout=60)
    try:
        return asked(connection, method, path, key, body, head_length)
    finally:
        connection.close()


def asked(
    connection: http.client.HTTPConnection, method: str, path: str, key: str, body: bytes, head_length: int
) -> bytes:
    """One request; raises OSError for any status but 200."""
    headers = {"X-API-Key": key} if key else {}
    if head_length:
        headers["Inference-Header-Content-Length"] = str(head_length)
    connection.request(method, path, body or None, headers)
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise OSError(f"{path}: {response.status} {content[:200].decode(errors='replace')}")
    return content


def body_for(url: str, tenant: Tenant) -> tuple[bytes, int]:
    """A request of zeros for a model, by what the server says of its inputs, and the length of its JSON."""
    told = json.loads(ask(url, "GET", f"/v2/models/{tenant.model}", tenant.key))
    entries, size = [], 0
    for entry in told["inputs"]:
        shape = [max(1, length) for length in entry["shape"]]
        if entry["datatype"] not in BYTES:
            sys.exit(
                f"{tenant.model}: input {entry['name']} is {entry['datatype']}; accepted: {', '.join(BYTES)}"
            )
        count = BYTES[entry["datatype"]]
        for length in shape:
            count *= length
        size += count
        entries.append({**entry, "shape": shape, "parameters": {"binary_data_size": count}})
    asks = {"inputs": entries, "parameters": {"binary_data_output": True}}
    head = json.dumps(asks).encode()
    return head + bytes(size), len(head)


class Sut:
    """What LoadGen calls the system under test: takes queries, and says when each is answered."""

    def __init__(self, loadgen: object, url: str, tenant: Tenant) -> None:
        self._loadgen, self._url, self._tenant = loadgen, url, tenant
        self._body, self._head_length = body_for(url, tenant)
        self._queries: queue.SimpleQueue = queue.SimpleQueue()
        self.refused: list[str] = []
        self._threads = [threading.Thread(target=self._work) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def issue(self, samples: list) -> None:
        """Called by LoadGen for each query."""
        now_s = time.perf_counter()
        for sample in samples:
            self._queries.put((sample.id, now_s))

    def flush(self) -> None:
        """Called by LoadGen after the last query."""

    def _work(self) -> None:
        connection = http.client.HTTPConnection(self._url, timeout=60)
        path = f"/v2/models/{self._tenant.model}/infer"
        while (query := self._queries.get()) is not None:
            number, issued_s = query
            try:
                asked(connection, "POST", path, self._tenant.key, self._body, self._head_length)
            except OSError as error:
                self.refused.append(str(error))
                late_s = issued_s + 1.01e-3 * self._tenant.latency_ms - time.perf_counter()
                threading.Timer(max(0.0, late_s), self._complete, (number,)).start()
            else:
                self._complete(number)
        connection.close()

    def _complete(self, number: int) -> None:
        self._loadgen.QuerySamplesComplete([self._loadgen.QuerySampleResponse(number, 0, 0)])

    def close(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._queries.put(None)
        for thread in self._threads:
            thread.join()


def run_one(options: argparse.Namespace, tenant: Tenant) -> dict[str, object]:
    """Run LoadGen for one tenant in this process; returns what its summary says."""
    import mlperf_loadgen as loadgen

    folder = options.out / tenant.name
    folder.mkdir(parents=True, exist_ok=True)
    settings = loadgen.TestSettings()
    settings.scenario = loadgen.TestScenario.Server
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.server_target_qps = tenant.qps
    settings.server_target_latency_ns = int(1e6 * tenant.latency_ms)
    settings.server_target_latency_percentile = options.percentile / 100
    settings.min_duration_ms = int(1e3 * options.seconds)
    settings.min_query_count = options.queries
    settings.qsl_rng_seed = options.seed
    settings.sample_index_rng_seed = options.seed
    settings.schedule_rng_seed = options.seed
    output = loadgen.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    log = loadgen.LogSettings()
    log.log_output = output
    log.enable_trace = False
    sut = Sut(loadgen, options.url, tenant)
    handle = loadgen.ConstructSUT(sut.issue, sut.flush)
    samples = loadgen.ConstructQSL(1, 1, lambda indices: None, lambda indices: None)
    try:
        loadgen.StartTestWithLogSettings(handle, samples, settings, log)
    finally:
        sut.close()
        loadgen.DestroyQSL(samples)
        loadgen.DestroySUT(handle)
    told = summary_of(folder / "mlperf_log_summary.txt")
    return {"tenant": tenant.name, "refused": len(sut.refused), "first_refusal": sut.refused[:1], **told}


def summary_of(file: Path) -> dict[str, str]:
    """The lines `NAME : VALUE` of a summary."""
    pairs = (line.split(":", 1) for line in file.read_text().splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--url", required=True, help="host and port of HTTP")
    parser.add_argument("--tenant", type=Tenant.of, action="append", required=True)
    parser.add_argument("--percentile", type=float, default=99.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="the least that a run takes")
    parser.add_argument("--queries", type=int, default=100, help="the least that a run has")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="folder for LoadGen's logs")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_one(options, options.tenant[0])))
        return
    shared = ["--url", options.url, "--percentile", options.percentile, "--seconds", options.seconds]
    shared += ["--queries", options.queries, "--seed", options.seed, "--out", options.out, "--one"]
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "--tenant", ",".join(map(str, tenant)), *map(str, shared)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for tenant in options.tenant
    ]
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        sys.exit("an instance of LoadGen failed; what it said is above")
    for text in said:
        print(text.splitlines()[-1])


if __name__ == "__main__":
    main()
