"""What tritonclient does to a server with real models.

Arguments: the ports of HTTP, gRPC and control, a tenant's key, that of one with a rate of one request, and
the control key.
"""

import asyncio
import queue
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

HTTP, GRPC, CONTROL = (f"127.0.0.1:{port}" for port in sys.argv[1:4])
# tritonclient writes into the headers that it is given, so each call by HTTP gets a copy.
KEY, HASTY, OPERATOR = ({"X-API-Key": key} for key in sys.argv[4:7])
META, HASTY_META = ({"x-api-key": key["X-API-Key"]} for key in (KEY, HASTY))
IDS = np.array([1, 2, 3, 4], np.int64)
SUMS = (100.0 * IDS.sum() + 4 * np.arange(8)).astype(np.float32)
TEXTS = np.array([b"abc", "grün".encode()], object)
LONG = 200_000  # rounds of the model `spin`, which take far more than DEADLINE_S in all
DEADLINE_S = 0.02


def tensor(module, name, array, datatype, **options):
    entry = module.InferInput(name, list(array.shape), datatype)
    entry.set_data_from_numpy(array, **options)
    return [entry]


def ids(module, **options):
    return tensor(module, "ids", IDS, "INT64", **options)


def rounds(module, count):
    return tensor(module, "n", np.array([count], np.int64), "INT64")


def status_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except InferenceServerException as error:
        return str(error.status()).removeprefix("StatusCode.")
    raise AssertionError("it was not refused")


def served_again(module, client, headers):
    """A block is not interrupted: others are served once it has ended."""
    until_s = time.monotonic() + 20.0
    while True:
        try:
            result = client.infer("lookup", ids(module), headers=dict(headers))
        except InferenceServerException:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)
        else:
            assert (result.as_numpy("y") == 2 * SUMS).all()
            return


def both(module, client, headers, hasty):
    """What HTTP and gRPC have in common."""
    assert client.is_server_ready(headers=headers)
    for binary in (True, False) if module is tritonclient.http else (None,):
        options = {} if binary is None else {"binary_data": binary}
        result = client.infer(
            "lookup",
            ids(module, **options),
            model_version="1",
            outputs=[module.InferRequestedOutput("y", **options)],
            headers=dict(headers),
        )
        assert (result.as_numpy("y") == SUMS).all()
        texts = client.infer(
            "exclaim",
            tensor(module, "x", TEXTS, "BYTES", **options),
            outputs=[module.InferRequestedOutput("y", **options)],
            headers=dict(headers),
        )
        assert [
            bytes(text) if isinstance(text, bytes) else text.encode() for text in texts.as_numpy("y")
        ] == [
            b"abc!",
            "grün!".encode(),
        ]
    newest = client.infer("lookup", ids(module), headers=dict(headers))
    assert (newest.as_numpy("y") == 2 * SUMS).all()
    best = client.infer(
        "lookup",
        ids(module),
        outputs=[module.InferRequestedOutput("y", class_count=2)],
        headers=dict(headers),
    )
    assert [text.split(b":")[1:] for text in best.as_numpy("y").ravel()] == [
        [b"7", b"class-7"],
        [b"6", b"class-6"],
    ]
    wrong = tensor(module, "ids", np.full(4, 10**6), "INT64")
    assert status_of(client.infer, "lookup", wrong, headers=dict(headers)) in ("400", "INVALID_ARGUMENT")
    short = tensor(module, "ids", IDS[:3], "INT64")
    assert status_of(client.infer, "lookup", short, headers=dict(headers)) in ("400", "INVALID_ARGUMENT")
    unauthenticated = ("401", "UNAUTHENTICATED")
    assert status_of(client.infer, "lookup", ids(module)) in unauthenticated
    with suppress(InferenceServerException):
        client.infer("lookup", ids(module), headers=dict(hasty))  # the one in an hour, if nobody had it yet
    counts = [status_of(client.infer, "lookup", ids(module), headers=dict(hasty)) for _ in range(3)]
    assert set(counts) <= {"429", "RESOURCE_EXHAUSTED"}
    # At its deadline, or at once where the model is known to take longer.
    late = status_of(
        client.infer, "spin", rounds(module, LONG), timeout=int(1e6 * DEADLINE_S), headers=dict(headers)
    )
    assert late in ("504", "429", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"), late
    served_again(module, client, headers)
    hopeless = status_of(client.infer, "lookup", ids(module), timeout=1, headers=dict(headers))
    assert hopeless in ("504", "429", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"), hopeless


def http_alone():
    with tritonclient.http.InferenceServerClient(HTTP, concurrency=4) as client:
        both(tritonclient.http, client, KEY, HASTY)
        for way in ("gzip", "deflate"):
            result = client.infer(
                "lookup",
                ids(tritonclient.http),
                headers=dict(KEY),
                request_compression_algorithm=way,
                response_compression_algorithm=way,
            )
            assert (result.as_numpy("y") == 2 * SUMS).all()
        changing = status_of(client.unload_model, "exclaim", headers=dict(OPERATOR))
        assert changing == "403", changing


def grpc_alone():
    client = tritonclient.grpc.InferenceServerClient(GRPC)
    both(tritonclient.grpc, client, META, HASTY_META)
    module = tritonclient.grpc
    for way in ("gzip", "deflate"):
        result = client.infer("lookup", ids(module), headers=META, compression_algorithm=way)
        assert (result.as_numpy("y") == 2 * SUMS).all()
    late = status_of(client.infer, "spin", rounds(module, LONG), headers=META, client_timeout=DEADLINE_S)
    assert late in ("DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"), late
    served_again(module, client, META)

    told = threading.Event()
    errors = []

    def answered(result, error):
        errors.append(error)
        told.set()

    context = client.async_infer("spin", rounds(module, 2 * LONG), answered, headers=META)
    time.sleep(0.05)
    context.cancel()
    assert told.wait(20)
    assert "CANCELLED" in str(errors[0].status()), errors
    served_again(module, client, META)

    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)), headers=META)
    for version in ("1", "2"):
        client.async_stream_infer("lookup", ids(module), model_version=version)
    for scale in (1, 2):
        result, error = answers.get(timeout=20)
        assert error is None
        assert (result.as_numpy("y") == scale * SUMS).all()
    client.async_stream_infer("spin", rounds(module, LONG))
    time.sleep(0.2)
    client.stop_stream(cancel_requests=True)
    served_again(module, client, META)
    client.close()


async def asynchronous():
    async with tritonclient.grpc.aio.InferenceServerClient(GRPC) as client:
        calls = (client.infer("lookup", ids(tritonclient.grpc), headers=META) for _ in range(8))
        for result in await asyncio.gather(*calls):
            assert (result.as_numpy("y") == 2 * SUMS).all()
    async with tritonclient.http.aio.InferenceServerClient(HTTP) as client:
        calls = (client.infer("lookup", ids(tritonclient.http), headers=dict(KEY)) for _ in range(8))
        for result in await asyncio.gather(*calls):
            assert (result.as_numpy("y") == 2 * SUMS).all()


def states(client):
    return {
        (entry["name"], entry["version"]): entry["state"] for entry in client.get_model_repository_index()
    }


def control():
    """Loading and unloading, and a repository's index and statistics."""
    with (
        tritonclient.http.InferenceServerClient(CONTROL, network_timeout=120) as operator,
        tritonclient.http.InferenceServerClient(HTTP) as client,
    ):
        assert states(client)["exclaim", "1"] == "READY"
        assert status_of(operator.unload_model, "exclaim", headers=dict(KEY)) in ("401", "403")
        assert status_of(operator.unload_model, "exclaim") == "401"
        operator.unload_model("exclaim", headers=dict(OPERATOR))
        assert states(client)["exclaim", "1"] == "UNAVAILABLE"
        assert not client.is_model_ready("exclaim", headers=dict(KEY))
        texts = tensor(tritonclient.http, "x", TEXTS, "BYTES")
        assert status_of(client.infer, "exclaim", texts, headers=dict(KEY)) in ("404", "503")
        assert status_of(operator.load_model, "nothing", headers=dict(OPERATOR)) in ("400", "404")
        operator.load_model("exclaim", headers=dict(OPERATOR))
        assert states(client)["exclaim", "1"] == "READY"
        assert client.infer("exclaim", texts, headers=dict(KEY)).as_numpy("y")[0] == b"abc!"
        told = client.get_inference_statistics("lookup", headers=dict(KEY))["model_stats"]
        assert sum(entry["inference_count"] for entry in told) > 10
        assert all(entry["inference_stats"]["success"]["ns"] > 0 for entry in told)


http_alone()
grpc_alone()
asyncio.run(asynchronous())
control()
print("done")
