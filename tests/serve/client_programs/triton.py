"""What tritonclient does, by HTTP, asynchronous HTTP and gRPC. Arguments: the ports of HTTP and gRPC."""

import asyncio
import queue
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

HTTP = f"127.0.0.1:{sys.argv[1]}"
GRPC = f"127.0.0.1:{sys.argv[2]}"
WHOLE = ["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"]
DATATYPES = ["BOOL", *WHOLE, "FP16", "FP32", "FP64", "BYTES"]


def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except InferenceServerException as error:
        return str(error.status()), error.message()
    raise AssertionError("it was not refused")


def tensor(module, array, datatype, **options):
    entry = module.InferInput("x", list(array.shape), datatype)
    entry.set_data_from_numpy(array, **options)
    return [entry]


def array_of(datatype):
    if datatype == "BYTES":
        return np.array([b"a", "ü".encode()], object)
    return np.array([0, 1]).astype(triton_to_np_dtype(datatype))


def both(module, client):
    """What HTTP and gRPC have in common."""
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("scores")
    assert client.is_model_ready("scores", "2")
    assert not client.is_model_ready("unknown")
    as_json = {"as_json": True} if module is tritonclient.grpc else {}
    assert client.get_server_metadata(**as_json)["name"] == "headway"
    assert client.get_model_metadata("scores", **as_json)["versions"] == ["1", "2"]
    config = client.get_model_config("scores", **as_json)
    assert config.get("config", config)["max_batch_size"] == 8
    assert client.get_model_repository_index(**as_json)
    assert client.get_inference_statistics("scores", **as_json)["model_stats"][0]["name"] == "scores"
    client.load_model("scores")
    client.unload_model("scores")
    assert "not taken" in refused(client.load_model, "scores", config="{}", files={"file:1/m.onnx": b"a"})[1]
    client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "5"})
    assert "5" in str(client.get_trace_settings(**as_json)["settings" if as_json else "trace_rate"])
    client.update_trace_settings(settings={"trace_level": None, "trace_rate": None})
    assert "OFF" in str(client.get_trace_settings(**as_json))
    client.update_log_settings({"log_verbose_level": 1})
    client.update_log_settings({"log_verbose_level": 0})
    assert "log_info" in str(client.get_log_settings(**as_json))
    for kind in ("system", "cuda"):
        assert not getattr(client, f"get_{kind}_shared_memory_status")(**as_json)
        getattr(client, f"unregister_{kind}_shared_memory")()
    assert "not offered" in refused(client.register_system_shared_memory, "r", "/k", 8)[1]

    for datatype in DATATYPES:
        array = array_of(datatype)
        for outputs in (None, [module.InferRequestedOutput("y")]):
            result = client.infer(
                f"echo-{datatype}",
                tensor(module, array, datatype),
                outputs=outputs,
                request_id="r",
                timeout=5_000_000,
                priority=1,
                parameters={"deadline_ms": 900},
            )
            assert (result.as_numpy("y") == array).all(), datatype
    scores = tensor(module, np.array([[0.1, 0.7, 0.2]], np.float32), "FP32")
    best = client.infer("scores", scores, outputs=[module.InferRequestedOutput("y", class_count=2)])
    assert best.as_numpy("y").tolist() == [[b"0.700000:1:dog", b"0.200000:2:owl"]]
    ones = tensor(module, np.ones(2, np.float32), "FP32")
    futures = [client.async_infer("echo-FP32", ones) for _ in range(5)] if not as_json else []
    assert all((future.get_result().as_numpy("y") == 1).all() for future in futures)
    code, message = refused(client.infer, "refuse", ones)
    assert message == "over the rate"
    assert code in ("429", "StatusCode.RESOURCE_EXHAUSTED")
    code, _ = refused(client.infer, "unknown", ones)
    assert code in ("404", "StatusCode.NOT_FOUND")
    code, _ = refused(client.infer, "echo-FP32", ones, headers={"x-api-key": "wrong"})
    assert code in ("401", "StatusCode.UNAUTHENTICATED")


def http_alone(client):
    ones = np.ones(2, np.float32)
    for algorithm in (None, "gzip", "deflate"):
        for binary_in in (True, False):
            for binary_out in (True, False):
                result = client.infer(
                    "echo-FP32",
                    tensor(tritonclient.http, ones, "FP32", binary_data=binary_in),
                    outputs=[tritonclient.http.InferRequestedOutput("y", binary_data=binary_out)],
                    request_compression_algorithm=algorithm,
                    response_compression_algorithm=algorithm,
                )
                assert (result.as_numpy("y") == ones).all()


def grpc_alone(client):
    ones = tensor(tritonclient.grpc, np.ones(2, np.float32), "FP32")
    client.infer("echo-FP32", ones, compression_algorithm="gzip")
    code, _ = refused(client.infer, "held", ones, client_timeout=0.5)
    assert code == "StatusCode.DEADLINE_EXCEEDED"
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(4):
        model = "refuse" if i == 2 else "echo-FP32"
        client.async_stream_infer(model, ones, request_id=str(i), enable_empty_final_response=True)
    for i in range(4):
        result, error = answers.get(timeout=20)
        if i == 2:
            assert "over the rate" in error.message()
        else:
            assert error is None
            response = result.get_response()
            assert response.id == str(i)
            assert response.parameters["triton_final_response"].bool_param
    client.stop_stream()


async def asynchronous():
    async with tritonclient.http.aio.InferenceServerClient(HTTP) as client:
        assert await client.is_server_ready()
        assert (await client.get_model_metadata("scores"))["name"] == "scores"
        ones = tensor(tritonclient.http, np.ones(150_528, np.float32), "FP32")
        results = await asyncio.gather(*(client.infer("echo-FP32", ones) for _ in range(8)))
        assert all((result.as_numpy("y") == 1).all() for result in results)
        message = ""
        try:
            await client.infer("refuse", tensor(tritonclient.http, np.ones(2, np.float32), "FP32"))
        except InferenceServerException as error:
            message = error.message()
        assert message == "over the rate"


http_client = tritonclient.http.InferenceServerClient(HTTP, concurrency=4)
both(tritonclient.http, http_client)
http_alone(http_client)
asyncio.run(asynchronous())
grpc_client = tritonclient.grpc.InferenceServerClient(GRPC)
both(tritonclient.grpc, grpc_client)
grpc_alone(grpc_client)
print("done")
