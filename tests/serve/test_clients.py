"""Clients that others wrote work unchanged."""

from __future__ import annotations

import socket

import pytest
from clients import KSERVE, TRITON, perf_analyzer_counts, run_perf_analyzer, run_program
from fake_service import FakeService

from headway.serve.frontends import serve_frontends
from headway.serve.protocol import inference_pb2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def ports():
    """A server that takes inference and changes on the same ports, as such clients expect."""
    http, grpc = ("127.0.0.1", free_port()), ("127.0.0.1", free_port())
    with serve_frontends(FakeService(), http=http, grpc=grpc, control=http, control_grpc=grpc):
        yield http[1], grpc[1]


@pytest.mark.slow
def test_tritonclient(ports):
    assert run_program(TRITON, "triton.py", *ports).endswith("done\n")


@pytest.mark.slow
def test_our_messages_are_those_of_tritonclient_and_live_beside_them():
    assert run_program(TRITON, "triton_messages.py", inference_pb2.__file__).endswith("done\n")


@pytest.mark.slow
def test_kserve(ports):
    assert run_program(KSERVE, "kserve_client.py", *ports).endswith("done\n")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["http", "grpc", "streaming"])
def test_perf_analyzer(ports, way):
    http_port, grpc_port = ports
    where = ["-i", "http", "-u", f"127.0.0.1:{http_port}"]
    if way != "http":
        where = ["-i", "grpc", "-u", f"127.0.0.1:{grpc_port}"]
    if way == "streaming":
        where.append("--streaming")
    told = run_perf_analyzer(
        "-m", "scores", "-b", "2", "--shape", "x:3", "--request-count", "100", "-H", "x-api-key:k", *where
    )
    assert perf_analyzer_counts(told) == (100, pytest.approx(100, abs=2)), told
