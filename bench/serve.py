"""What the front ends cost: processor time per request of a 602 KB tensor, beside bare echoes.

Each system is a process of its own on 127.0.0.1; one client, the same for all systems of a protocol, sends a
request after the other to each in turn, in an order that turns from round to round. Counted is the server's
processor time (time.process_time, all threads), so that other work on the machine matters little. All answer
with 1000 FP32.

    http-echo      our HTTP connections with a handler that answers bytes
    http-headway   the HTTP front end, with a service that answers from a thread of its own
    uvicorn-echo   a bare ASGI function under uvicorn with httptools and uvloop
    grpc-echo      grpc.aio on uvloop, bytes in and out
    grpc-headway   the gRPC front end, same service
    grpc-sync-echo, grpc-asyncio-echo   gRPC's thread pool, and grpc.aio on asyncio's own loop

    python bench/serve.py --rounds 12 --requests 150
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import http.client
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

import grpc
import numpy as np

from headway.serve.frontends import serve_frontends
from headway.serve.http_connection import OpenConnections, connection_factory
from headway.serve.http_messages import HttpAnswer, HttpRequest
from headway.serve.limits import Limits
from headway.serve.service import InferenceRequest, InferenceResult

SHAPE = (1, 3, 224, 224)
ANSWER = np.zeros((1, 1000), np.float32)
HOST = "127.0.0.1"
BYTES_METHOD = "/bare.Echo/Call"
INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"
MESSAGE_LIMIT = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
SYSTEMS = (
    "http-echo",
    "http-headway",
    "uvicorn-echo",
    "grpc-echo",
    "grpc-headway",
    "grpc-sync-echo",
    "grpc-asyncio-echo",
)


class ThreadedEcho:
    """A service that answers from another thread, as an engine does."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[InferenceRequest, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        while True:
            request, done = self._calls.get()
            done(InferenceResult(request.model, "1", {"y": ANSWER}))

    def submit(self, request: InferenceRequest, done: Any) -> ThreadedEcho:
        self._calls.put((request, done))
        return self

    def cancel(self) -> None:
        """Too short to be withdrawn."""


# The servers


def serve(system: str) -> None:
    """Run a system, tell its port, and then its processor time for each line of the standard input."""
    if system.endswith("-headway"):
        address = (HOST, 0)
        front = serve_frontends(ThreadedEcho(), **{system.partition("-")[0]: address})  # type: ignore[arg-type]
        tell_times(front.http_port or front.grpc_port)
    elif system == "grpc-sync-echo":
        server = grpc.server(ThreadPoolExecutor(8), options=MESSAGE_LIMIT)
        handler = grpc.unary_unary_rpc_method_handler(lambda request, context: ANSWER.tobytes())
        server.add_generic_rpc_handlers((echo_service(handler),))
        port = server.add_insecure_port(f"{HOST}:0")
        server.start()
        tell_times(port)
    elif system == "grpc-asyncio-echo":
        asyncio.run(bare(system))
    else:
        import uvloop

        uvloop.run(bare(system))


def echo_service(handler: Any) -> Any:
    return grpc.method_handlers_generic_handler("bare.Echo", {"Call": handler})


async def bare(system: str) -> None:
    loop = asyncio.get_running_loop()
    if system == "http-echo":

        async def answer(request: HttpRequest) -> HttpAnswer:
            return HttpAnswer(200, [("content-type", "application/octet-stream")], [ANSWER.tobytes()])

        factory = connection_factory(answer, Limits(), OpenConnections(), loop)
        listener = await loop.create_server(factory, HOST, 0)
        port = listener.sockets[0].getsockname()[1]
    elif system == "uvicorn-echo":
        port = await uvicorn_echo()
    else:
        server = grpc.aio.server(options=MESSAGE_LIMIT)

        async def call(request: bytes, context: Any) -> bytes:
            return ANSWER.tobytes()

        handler = grpc.unary_unary_rpc_method_handler(call)
        server.add_generic_rpc_handlers((echo_service(handler),))
        port = server.add_insecure_port(f"{HOST}:0")
        await server.start()
    await asyncio.to_thread(tell_times, port)


async def uvicorn_echo() -> int:
    import uvicorn

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        parts = []
        more = True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        b"".join(parts)
        content = ANSWER.tobytes()
        length = (b"content-length", str(len(content)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": content})

    config = uvicorn.Config(
        echo, HOST, 0, log_level="error", lifespan="off", http="httptools", timeout_keep_alive=600
    )
    server = uvicorn.Server(config)
    asyncio.get_running_loop().create_task(server.serve()).add_done_callback(lambda task: task.result())
    while not server.started:
        await asyncio.sleep(0.01)
    return int(server.servers[0].sockets[0].getsockname()[1])


def tell_times(port: int | None) -> None:
    print(port, flush=True)
    for _ in sys.stdin:
        print(time.process_time(), flush=True)
    os._exit(0)


# The client


def http_call(port: int) -> Callable[[], None]:
    data = np.zeros(SHAPE, np.float32).tobytes()
    tensor = {"name": "x", "datatype": "FP32", "shape": SHAPE, "parameters": {"binary_data_size": len(data)}}
    head = json.dumps({"inputs": [tensor], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]})
    body = head.encode() + data
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    connection = http.client.HTTPConnection(HOST, port)

    def call() -> None:
        connection.request("POST", "/v2/models/m/infer", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        assert len(content) >= ANSWER.nbytes

    return call


def grpc_call(port: int, method: str) -> Callable[[], None]:
    from headway.serve.protocol import inference_pb2 as pb

    message = pb.ModelInferRequest(model_name="m")
    message.inputs.add(name="x", datatype="FP32", shape=SHAPE)
    message.raw_input_contents.append(np.zeros(SHAPE, np.float32).tobytes())
    data = message.SerializeToString()
    send = grpc.insecure_channel(f"{HOST}:{port}", options=MESSAGE_LIMIT).unary_unary(method)

    def call() -> None:
        assert len(send(data)) >= ANSWER.nbytes

    return call


def measure(systems: Sequence[str], rounds: int, requests: int) -> dict[str, list[float]]:
    """Milliseconds of the server's processor time per request, a number per round, by system."""
    servers = {
        system: subprocess.Popen(
            [sys.executable, __file__, "--serve", system],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for system in systems
    }

    def line_of(system: str) -> str:
        return servers[system].stdout.readline()  # type: ignore[union-attr]

    def time_s(system: str) -> float:
        servers[system].stdin.write("\n")  # type: ignore[union-attr]
        servers[system].stdin.flush()  # type: ignore[union-attr]
        return float(line_of(system))

    try:
        calls = {}
        for system in systems:
            port = int(line_of(system))
            if system.startswith("grpc"):
                calls[system] = grpc_call(port, INFER_METHOD if system == "grpc-headway" else BYTES_METHOD)
            else:
                calls[system] = http_call(port)
            for _ in range(50):
                calls[system]()
        times_ms: dict[str, list[float]] = {system: [] for system in systems}
        for round_number in range(rounds):
            turn = round_number % len(systems)
            for system in (*systems[turn:], *systems[:turn]):
                begin_s = time_s(system)
                for _ in range(requests):
                    calls[system]()
                times_ms[system].append((time_s(system) - begin_s) / requests * 1e3)
        return times_ms
    finally:
        for server in servers.values():
            server.kill()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=150, help="per system and round")
    parser.add_argument("--only", nargs="+", choices=SYSTEMS, default=SYSTEMS, help="these systems")
    parser.add_argument("--serve", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    times_ms = measure(options.only, options.rounds, options.requests)
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} processors")
    print(f"{options.rounds} rounds of {options.requests} requests; ms of processor time per request")
    print(f"{'system':18} {'median':>7} {'least':>7} {'most':>7}")
    for system, values in times_ms.items():
        print(f"{system:18} {median(values):7.3f} {min(values):7.3f} {max(values):7.3f}")
    for protocol in ("http", "grpc"):
        if not {f"{protocol}-headway", f"{protocol}-echo"} <= set(times_ms):
            continue
        above = [
            ours - echo
            for ours, echo in zip(times_ms[f"{protocol}-headway"], times_ms[f"{protocol}-echo"], strict=True)
        ]
        print(f"{protocol}: headway above its bare echo, by round: median {median(above):.3f} ms")


if __name__ == "__main__":
    main()
