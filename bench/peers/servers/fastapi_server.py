"""FastAPI on uvicorn, a session of two threads per model; the Open Inference Protocol with binary tensors.

Runs of all models go to Starlette's thread pool, as FastAPI's documentation has it.
"""

import json

import uvicorn
from common import MODELS, PORT, output_of, session, tensors
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

SESSIONS = {name: session(name, 2) for name in MODELS}
LENGTH = "inference-header-content-length"
app = FastAPI()


def run(name, body, head_length):
    (y,) = SESSIONS[name].run([output_of(name)], tensors(name, body, head_length))
    output = {"name": output_of(name), "datatype": "FP32", "shape": list(y.shape)}
    output["parameters"] = {"binary_data_size": y.nbytes}
    head = json.dumps({"model_name": name, "model_version": "1", "outputs": [output]}).encode()
    return Response(head + y.tobytes(), 200, {LENGTH: str(len(head))}, "application/octet-stream")


@app.post("/v2/models/{name}/infer")
async def infer(name: str, request: Request):
    body = await request.body()
    head_length = int(request.headers[LENGTH])
    json.loads(body[:head_length])
    return await run_in_threadpool(run, name, body, head_length)


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
