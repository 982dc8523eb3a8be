"""What KServe's clients do, by REST and gRPC. Arguments: the ports of HTTP and gRPC."""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

HTTP = f"http://127.0.0.1:{sys.argv[1]}"
GRPC = f"127.0.0.1:{sys.argv[2]}"
ARRAY = np.array([[0.5, -1.0]], np.float32)


def request(binary):
    tensor = InferInput("x", list(ARRAY.shape), "FP32")
    tensor.set_data_from_numpy(ARRAY, binary_data=binary)
    return InferRequest("echo-FP32", [tensor], request_id="r")


async def rest():
    client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
    assert await client.is_server_live(HTTP)
    assert await client.is_server_ready(HTTP)
    assert await client.is_model_ready(HTTP, "scores")
    for binary in (True, False):
        answer = await client.infer(HTTP, request(binary), model_name="echo-FP32")
        assert (answer.outputs[0].as_numpy() == ARRAY).all()
        assert answer.id == "r"
    await client.close()


async def grpc():
    client = InferenceGRPCClient(GRPC)
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("scores")
    for binary in (True, False):
        answer = await client.infer(request(binary))
        assert (answer.outputs[0].as_numpy() == ARRAY).all()
    await client.close()


asyncio.run(rest())
asyncio.run(grpc())
print("done")
