"""Ray Serve: a replica per model with a session of two threads, and raw bodies."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import ray
from common import MODELS, PORT, output_of, session, tensors
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


def deployment_of(name):
    @serve.deployment(
        name=name, num_replicas=1, max_ongoing_requests=100, ray_actor_options={"num_cpus": 0.2}
    )
    class OneModel:
        def __init__(self):
            self.session = session(name, 2)

        def run(self, body):
            return self.session.run([output_of(name)], tensors(name, body))[0].tobytes()

        async def __call__(self, request: Request):
            body = await request.body()
            output = await asyncio.get_running_loop().run_in_executor(None, self.run, body)
            return Response(output, media_type="application/octet-stream")

    return OneModel.bind()


if __name__ == "__main__":
    variables = {name: os.environ[name] for name in ("BENCH_MODELS", "BENCH_PORT")}
    variables["PYTHONPATH"] = str(Path(__file__).parent)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        runtime_env={"env_vars": variables},
        _node_ip_address="127.0.0.1",
        object_store_memory=300_000_000,
    )
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    for name in MODELS:
        serve.run(deployment_of(name), name=name, route_prefix=f"/{name}")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    serve.shutdown()
    ray.shutdown()
    sys.exit(0)
