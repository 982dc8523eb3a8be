"""All systems by name."""

from __future__ import annotations

from headway_system import Headway
from systems import Bare, MlServer, Ray, Served, System
from ways import ByGrpc, ByHttp
from wire import base64_json, open_inference, raw_bytes


def systems() -> dict[str, System]:
    """New ones, none of them started."""
    made: list[System] = [
        Headway("headway", "Headway, HTTP", ByHttp(open_inference)),
        Headway("headway-grpc", "Headway, gRPC", ByGrpc()),
        Headway("headway-edf", "Headway, HTTP, policy edf:planned", ByHttp(open_inference), "edf:planned"),
        Bare(1, 2),
        Bare(2, 1),
        Served(
            "fastapi",
            "FastAPI on uvicorn, a session of two threads per model, Starlette's thread pool",
            ByHttp(open_inference),
            "fastapi",
            "fastapi_server.py",
        ),
        Served(
            "litserve",
            "LitServe, a worker process per model; base64 in JSON, since it takes no raw bodies",
            ByHttp(base64_json),
            "litserve",
            "litserve_server.py",
        ),
        Served(
            "pytriton",
            "PyTriton (Triton's front end), a Python function per model",
            ByHttp(open_inference),
            "pytriton",
            "pytriton_server.py",
            ports=3,
        ),
        MlServer(
            "mlserver",
            "MLServer, gRPC, two workers with sessions of one thread",
            ByGrpc(),
            "mlserver",
            ports=3,
        ),
        Ray(
            "rayserve",
            "Ray Serve, a replica per model; raw bodies",
            ByHttp(raw_bytes),
            "rayserve",
            "ray_server.py",
        ),
    ]
    return {system.name: system for system in made}


DEFAULT = ("headway", "bare-1x2", "bare-2x1", "fastapi", "litserve", "pytriton", "mlserver", "rayserve")
