"""Hostile requests: always a client's error in the protocol's form, and the server answers after it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from urllib.parse import quote

import grpc
import numpy as np
import pytest
from conftest import LIMITS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.serve.protocol import inference_pb2 as pb
from headway.serve.refusal import Cause, Refusal

PATH = "/v2/models/echo-FP32/infer"
GOOD = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2.5]}]}).encode()
BINARY_HEAD = json.dumps(
    {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 8}},
        ]
    }
).encode()

many = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LEAKS = (b"Traceback", b".py", b"/home", b"/usr", b"/root", b"/tmp", b"site-packages", b"object at 0x")


def checked(server, status, headers, body):
    assert status < 500, (status, body)
    if status >= 400:
        assert headers["content-type"] == "application/json"
        assert set(json.loads(body)) == {"error"}
    assert not [leak for leak in LEAKS if leak in body]


def lives(server):
    assert server.http("POST", PATH, GOOD)[0] == 200


def post(server, path, body, headers=None):
    checked(server, *server.http("POST", path, body, headers))


@many
@given(st.binary(max_size=200), st.sampled_from([None, "0", "3", "90", "200", "18446744073709551616"]))
def test_random_bodies(server, body, length):
    post(server, PATH, body, {} if length is None else {"Inference-Header-Content-Length": length})
    lives(server)


def edits(text):
    """Truncated, with a byte changed, with bytes repeated."""
    place = st.integers(0, len(text) - 1)
    return st.one_of(
        place.map(lambda at: text[:at]),
        st.tuples(place, st.integers(0, 255)).map(lambda e: text[: e[0]] + bytes([e[1]]) + text[e[0] + 1 :]),
        st.tuples(place, st.integers(1, 50)).map(lambda e: text[: e[0]] + text[e[0] : e[0] + 5] * e[1]),
    )


@many
@given(edits(GOOD))
def test_damaged_json(server, body):
    post(server, PATH, body)
    lives(server)


@many
@given(edits(BINARY_HEAD + bytes(8)))
def test_damaged_binary_bodies(server, body):
    post(server, PATH, body, {"Inference-Header-Content-Length": str(len(BINARY_HEAD))})
    lives(server)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["FP32", "BYTES", "BOOL", "UINT64", "x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "shape", "datatype", "data", "parameters", "binary_data_size", "inputs"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=25,
)


@many
@given(values, values, values, values, values)
def test_valid_json_of_any_shape(server, shape, data, datatype, parameters, outputs):
    tensor = {"name": "x", "shape": shape, "datatype": datatype, "data": data}
    for request in (
        {"inputs": [tensor], "parameters": parameters, "outputs": outputs},
        {"inputs": [{**tensor, "datatype": "FP64"}]},
        {"inputs": [{**tensor, "datatype": "BYTES", "shape": [2]}], "id": parameters},
        {"inputs": data},
        data,
    ):
        post(server, PATH, json.dumps(request).encode())
    lives(server)


segments = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


methods = st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD"])


@many
@given(st.lists(segments, max_size=6), methods, st.booleans())
def test_random_paths(server, parts, method, below):
    path = ("/v2/models/" if below else "/") + "/".join(map(quote, parts))
    status, _, body = server.http(method, path, b"" if method == "POST" else None)
    assert status < 500
    assert method == "HEAD" or not body or json.loads(body) is not None


@many
@given(st.binary(max_size=120))
def test_random_bytes_instead_of_http(server, data):
    with socket.create_connection(("127.0.0.1", server.front.http_port), timeout=10) as connection:
        connection.sendall(data + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    if received:
        assert int(received.split(b" ")[1]) < 500
        assert not [leak for leak in LEAKS if leak in received]
    lives(server)


def test_deep_json(server):
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 500 + b"]" * 500):
        post(server, PATH, b'{"inputs":' + deep)
        post(server, PATH, b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":' + deep + b"}]}")
    lives(server)


def test_huge_numbers(server):
    for number in (b"9" * 4000, b"1e400", b"-1e400", b"1" + b"0" * 100_000, b"0." + b"3" * 100_000):
        for field in (b'"shape":[%b],"data":[1]', b'"shape":[1],"data":[%b]'):
            text = b'{"inputs":[{"name":"x","datatype":"FP64",' + field % number + b"}]}"
            status, headers, body = server.http("POST", PATH, text)
            checked(server, status, headers, body)
            assert len(body) < 1000
    lives(server)


@pytest.mark.parametrize("times", [1, 2])
def test_a_bomb(server, times):
    bomb = bytes(64 << 20)
    for _ in range(times):
        bomb = gzip.compress(bomb, 1)
    status, headers, body = server.http("POST", PATH, bomb, {"Content-Encoding": "gzip"})
    checked(server, status, headers, body)
    assert status in (400, 413)
    lives(server)


def test_a_body_beyond_the_limit_is_refused_while_it_is_sent(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.front.http_port, timeout=20)
    connection.request("POST", PATH, bytes(LIMITS.body_bytes + 1))
    answer = connection.getresponse()
    assert answer.status == 413
    checked(server, answer.status, dict(answer.getheaders()), answer.read())
    connection.close()
    lives(server)


def test_a_body_that_never_comes_whole(server):
    with socket.create_connection(("127.0.0.1", server.front.http_port), timeout=10) as connection:
        connection.sendall(f"POST {PATH} HTTP/1.1\r\ncontent-length: 4000000\r\n\r\nabc".encode())
        lives(server)
    lives(server)


def test_long_names_do_not_come_back_long(server):
    name = "n" * 100_000
    for body in (
        {"inputs": [{"name": name, "datatype": name, "shape": [1], "data": [1]}]},
        {"inputs": [{"name": name, "datatype": "FP32", "shape": [1], "data": [name]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1] * 10_000, "data": [1]}]},
        {"inputs": [], "parameters": {name: None}},
    ):
        status, headers, content = server.http("POST", PATH, json.dumps(body).encode())
        checked(server, status, headers, content)
        assert status == 400
        assert len(content) < 1000
    refusal = Refusal(Cause.NOT_FOUND, f"no model {name!r}; accepted: another")
    assert refusal.message.startswith("no model 'nnn")
    assert refusal.message.endswith("; accepted: another")
    assert len(refusal.message) < 1000


def test_a_shape_whose_0_hides_its_other_dimensions(server):
    shape = [0, 1 << 20, 1 << 20, 1 << 20]
    entry = {"name": "x", "datatype": "FP32", "shape": shape}
    for tensor in ({"data": []}, {"parameters": {"binary_data_size": 0}}):
        status, headers, content = server.http(
            "POST", PATH, json.dumps({"inputs": [entry | tensor]}).encode()
        )
        checked(server, status, headers, content)
        assert status == 413
    message = pb.ModelInferRequest(model_name="echo-FP32", raw_input_contents=[b""])
    message.inputs.add(name="x", datatype="FP32", shape=shape)
    assert call(server, message.SerializeToString()) is grpc.StatusCode.RESOURCE_EXHAUSTED


# gRPC


def call(server, data, method="ModelInfer", **options):
    """The code of a call with any bytes as its message, None if it is answered."""
    with grpc.insecure_channel(f"127.0.0.1:{server.front.grpc_port}") as channel:
        send = channel.unary_unary(f"/inference.GRPCInferenceService/{method}", **options)
        try:
            send(data, timeout=20)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        else:
            return None
    assert not [leak for leak in LEAKS if leak.decode() in details]
    return code


ACCEPTED = (
    None,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.PERMISSION_DENIED,
)


def good_message():
    message = pb.ModelInferRequest(model_name="echo-FP32", id="a")
    message.inputs.add(name="x", datatype="FP32", shape=[2])
    message.raw_input_contents.append(np.ones(2, np.float32).tobytes())
    return message.SerializeToString()


few = settings(many, max_examples=60)
METHODS = sorted(
    set(pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name) - {"ModelStreamInfer"}
)


@few
@given(st.binary(max_size=80) | edits(good_message()))
def test_damaged_messages(server, data):
    assert call(server, data) in ACCEPTED
    assert call(server, good_message()) is None


@few
@given(st.binary(max_size=40), st.sampled_from(METHODS))
def test_random_messages_to_any_method(server, data, method):
    assert call(server, data, method) in ACCEPTED


@few
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
    st.sampled_from(["FP32", "BYTES", "BOOL", "INT8", "nonsense", ""]),
    st.binary(max_size=30),
    st.booleans(),
)
def test_messages_whose_tensors_lie(server, shape, datatype, content, raw):
    message = pb.ModelInferRequest(model_name="echo-FP32")
    tensor = message.inputs.add(name="x", datatype=datatype, shape=shape)
    if raw:
        message.raw_input_contents.append(content)
    else:
        tensor.contents.int_contents.extend(content)
    assert call(server, message.SerializeToString()) in ACCEPTED


def test_a_grpc_bomb(server):
    bomb = pb.ModelInferRequest(model_name="echo-FP32", raw_input_contents=[bytes(64 << 20)])
    code = call_compressed(server, bomb.SerializeToString())
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert call(server, good_message()) is None


def call_compressed(server, data):
    options = [("grpc.max_send_message_length", -1)]
    target = f"127.0.0.1:{server.front.grpc_port}"
    with grpc.insecure_channel(target, options=options, compression=grpc.Compression.Gzip) as channel:
        try:
            channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")(data, timeout=20)
        except grpc.RpcError as error:
            return error.code()
        return None


def test_an_unknown_method(server):
    assert call(server, b"", "NoSuch") is grpc.StatusCode.UNIMPLEMENTED
