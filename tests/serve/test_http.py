"""The HTTP front end, over sockets, with the fake service behind it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
import zlib

import numpy as np
import pytest
from conftest import HERE, LIMITS
from fake_service import FakeService
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from headway.core.errors import HeadwayError
from headway.serve.frontends import serve_frontends
from headway.serve.limits import Limits
from headway.serve.visits import Visits

ONE = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2.5]}]}


def infer(server, model="echo-FP32", request=ONE, headers=None):
    status, answer_headers, body = server.http(
        "POST", f"/v2/models/{model}/infer", json.dumps(request).encode(), headers
    )
    return status, answer_headers, json.loads(body)


def binary_request(array, datatype="FP32", **parameters):
    tensor = {
        "name": "x",
        "datatype": datatype,
        "shape": array.shape,
        "parameters": {"binary_data_size": array.nbytes},
    }
    head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    return head + array.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/v2/health/live", {"live": True}),
        ("GET", "/v2/health/ready", {"ready": True}),
        ("GET", "/v2/models/scores/ready", {"name": "scores", "ready": True}),
        ("GET", "/v2/models/scores/versions/2/ready", {"name": "scores", "ready": True}),
        ("GET", "/v2/systemsharedmemory/status", []),
        ("GET", "/v2/cudasharedmemory/status", []),
        ("POST", "/v2/systemsharedmemory/unregister", {}),
        ("POST", "/v2/cudasharedmemory/region/r/unregister", {}),
    ],
)
def test_short_answers(server, method, path, expected):
    status, headers, body = server.http(method, path)
    assert (status, json.loads(body)) == (200, expected)
    assert headers["content-type"] == "application/json"


def test_a_server_that_is_not_ready_says_so_in_json(server):
    server.service.is_ready = False
    for path in ("/v2/health/ready", "/v2/models/scores/ready"):
        status, _, body = server.http("GET", path)
        assert (status, json.loads(body)["ready"]) == (503, False)
    assert server.http("GET", "/v2/health/live")[0] == 200


def test_metadata_configuration_statistics_and_lists(server):
    def get(path):
        status, _, body = server.http("GET", path)
        assert status == 200
        return json.loads(body)

    assert get("/v2")["name"] == "headway"
    assert "binary_tensor_data" in get("/v2")["extensions"]
    metadata = get("/v2/models/scores")
    assert metadata["versions"] == ["1", "2"]
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
    config = get("/v2/models/scores/versions/2/config")
    assert config["max_batch_size"] == 8
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}]
    assert get("/v2/models/echo-BYTES/config")["input"][0]["data_type"] == "TYPE_STRING"
    server.service.counts["scores"] = 3
    (statistics,) = get("/v2/models/scores/stats")["model_stats"]
    assert statistics["inference_stats"]["success"] == {"count": 3, "ns": 3000}
    assert statistics["batch_stats"][0]["batch_size"] == 1
    assert len(get("/v2/models/stats")["model_stats"]) == len(server.service.models)
    assert "scores" in get("/v2/models")["models"]
    _, _, index = server.http("POST", "/v2/repository/index", b'{"ready":true}')
    assert {entry["state"] for entry in json.loads(index)} == {"READY"}
    _, _, index = server.http("POST", "/v2/repository/index")
    assert "UNAVAILABLE" in {entry["state"] for entry in json.loads(index)}


def test_json_in_and_out(server):
    status, headers, answer = infer(server, request={**ONE, "id": "a"})
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert answer == {
        "model_name": "echo-FP32",
        "model_version": "1",
        "id": "a",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [1.0, 2.5]}],
    }


def test_binary_in_and_out(server):
    array = np.arange(150_528, dtype=np.float32)
    body, headers = binary_request(array, binary_data_output=True)
    status, headers, answer = server.http("POST", "/v2/models/echo-FP32/infer", body, headers)
    assert status == 200
    length = int(headers["inference-header-content-length"])
    assert json.loads(answer[:length])["outputs"][0]["parameters"] == {"binary_data_size": array.nbytes}
    assert answer[length:] == array.tobytes()
    (request,) = server.service.requests
    assert request.inputs["x"].flags.aligned
    assert request.inputs["x"].base is not None  # a view of the body
    assert request.body_bytes == len(body)


@pytest.mark.parametrize("header", ["inference-header-content-length", "INFERENCE-HEADER-CONTENT-LENGTH"])
def test_header_names_come_in_any_case(server, header):
    body, headers = binary_request(np.ones(2, np.float32))
    value = headers.popitem()[1]
    assert server.http("POST", "/v2/models/echo-FP32/infer", body, {header: value})[0] == 200


def test_the_process_for_large_json_is_started_again_when_it_ended(server):
    numbers = np.zeros(40_000, np.int32).tolist()
    request = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [40_000], "data": numbers}]}
    assert infer(server, "echo-INT32", request)[0] == 200
    server.front._worker._process.kill()
    server.front._worker._process.wait()
    assert infer(server, "echo-INT32", request)[0] == 200


def test_large_json_is_answered_by_a_process_of_its_own(server):
    numbers = np.arange(40_000).tolist()
    request = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [40_000], "data": numbers}]}
    status, _, answer = infer(server, "echo-INT32", request)
    assert status == 200
    assert answer["outputs"][0]["data"] == numbers
    request["inputs"][0]["shape"] = [39_999]
    status, _, answer = infer(server, "echo-INT32", request)
    assert (status, "takes 39999" in answer["error"]) == (400, True)


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compression_both_ways(server, name, pack):
    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress}[name]
    body, headers = binary_request(np.ones(500, np.float32), binary_data_output=True)
    headers |= {"Content-Encoding": name, "Accept-Encoding": name}
    status, headers, answer = server.http("POST", "/v2/models/echo-FP32/infer", pack(body), headers)
    assert (status, headers["content-encoding"]) == (200, name)
    plain = unpack(answer)
    assert plain[int(headers["inference-header-content-length"]) :] == np.ones(500, np.float32).tobytes()


def test_classification(server):
    request = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [0.1, 0.7, 0.2]}],
        "outputs": [{"name": "y", "parameters": {"classification": 2}}],
    }
    _, _, answer = infer(server, "scores", request)
    assert answer["outputs"] == [
        {"name": "y", "datatype": "BYTES", "shape": [1, 2], "data": ["0.700000:1:dog", "0.200000:2:owl"]}
    ]


def test_bounds_priority_and_key_reach_the_service(server):
    parameters = {"timeout": 5_000_000, "deadline_ms": 300, "priority": 2}
    infer(server, request={**ONE, "parameters": parameters}, headers={"Headway-Deadline-Ms": "250"})
    infer(
        server, request={**ONE, "parameters": {"timeout": 100_000, "priority": 1}}, headers={"X-API-Key": "k"}
    )
    infer(server, request={**ONE, "parameters": {"timeout": 0}}, headers={"Authorization": "Bearer b"})
    tight, timeout, free = server.service.requests
    assert (tight.timeout_s, timeout.timeout_s, free.timeout_s) == (0.25, pytest.approx(0.1), None)
    assert timeout.priority > tight.priority
    assert free.priority is None
    assert (tight.key, timeout.key, free.key) == (None, "k", "b")
    assert tight.peer.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("parameters", "header", "told"),
    [
        ({"timeout": -1}, None, "timeout is -1"),
        ({"timeout": "5"}, None, "timeout is '5'"),
        ({"priority": 1.5}, None, "priority is 1.5"),
        ({"deadline_ms": 0}, None, "deadline_ms is 0"),
        ({}, "soon", "headway-deadline-ms: 'soon'"),
        ({}, "nan", "headway-deadline-ms is nan"),
    ],
)
def test_bad_bounds_are_refused(server, parameters, header, told):
    headers = {"Headway-Deadline-Ms": header} if header else {}
    status, _, answer = infer(server, request={**ONE, "parameters": parameters}, headers=headers)
    assert (status, told in answer["error"]) == (400, True)


def test_refusals_carry_their_status_and_when_to_come_again(server):
    status, headers, answer = infer(server, "refuse")
    assert (status, answer) == (429, {"error": "over the rate"})
    assert headers["retry-after"] == "2"
    assert float(headers["headway-retry-after-ms"]) == 1500
    assert float(headers["headway-predicted-finish-ms"]) == 250
    status, headers, _ = infer(server, "late")
    assert (status, float(headers["headway-predicted-finish-ms"])) == (504, 2000)
    assert "retry-after" not in headers
    status, headers, _ = infer(server, headers={"X-API-Key": "wrong"})
    assert (status, headers["www-authenticate"]) == (401, "Bearer")


def test_a_defect_is_a_500_that_tells_nothing_of_it(server):
    status, _, answer = infer(server, "broken")
    assert status == 500
    assert "secret" not in answer["error"]
    assert infer(server)[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404),
        ("GET", "/v2/", None, 404),
        ("GET", "/v2/nothing", None, 404),
        ("GET", "/v2/models/unknown", None, 404),
        ("GET", "/v2/models/scores/versions/9", None, 404),
        ("GET", "/v2/models/unknown/ready", None, 404),
        ("GET", "/v2/models/unknown/stats", None, 404),
        ("POST", "/v2/models/unknown/infer", json.dumps(ONE).encode(), 404),
        ("POST", "/v2/models/scores/versions/9/infer", json.dumps(ONE).encode(), 404),
        ("POST", "/v2/models//infer", json.dumps(ONE).encode(), 404),
        ("GET", "/v2/models/scores/infer", None, 405),
        ("PUT", "/v2/health/live", b"", 405),
        ("POST", "/v2/models/scores/infer", b"{", 400),
        ("POST", "/v2/models/scores/infer", b"", 400),
        ("POST", "/v2/repository/index", b"[]", 400),
        ("POST", "/v2/repository/index", b'{"ready":1}', 400),
        ("GET", "/v2/systemsharedmemory/region/r/status", None, 404),
        ("POST", "/v2/systemsharedmemory/region/r/register", b"{}", 400),
        ("POST", "/v2/cudasharedmemory/region/r/register", b"{}", 400),
        ("POST", "/v2/repository/models/scores/load", b"{}", 403),
        ("POST", "/v2/repository/models/scores/unload", b"{}", 403),
        ("POST", "/v2/logging", b'{"log_info":false}', 403),
        ("POST", "/v2/trace/setting", b'{"trace_rate":"1"}', 403),
    ],
)
def test_errors_are_json_with_their_status(server, method, path, body, status):
    found, headers, content = server.http(method, path, body)
    assert (found, headers["content-type"]) == (status, "application/json")
    assert set(json.loads(content)) == {"error"}


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999", "0", ""])
def test_a_wrong_length_of_the_json_is_refused(server, length):
    body, _ = binary_request(np.ones(2, np.float32))
    headers = {"Inference-Header-Content-Length": length}
    status, _, answer = server.http("POST", "/v2/models/echo-FP32/infer", body, headers)
    assert (status, "error" in json.loads(answer)) == (400, True)


def test_another_content_type_is_refused(server):
    status, _, answer = infer(server, headers={"Content-Type": "text/plain"})
    assert (status, "'text/plain'" in answer["error"]) == (400, True)


def test_load_and_unload_on_the_control_port(server):
    def post(action, body):
        path = f"/v2/repository/models/scores/{action}"
        status, _, content = server.http("POST", path, body, {"X-API-Key": "k"}, control=True)
        return status, json.loads(content)

    assert post("load", b"")[0] == 200
    assert post("load", b'{"parameters":{"config":"{}"}}')[0] == 200
    assert post("unload", b'{"parameters":{"unload_dependents":false}}')[0] == 200
    assert server.service.loaded == [("scores", "k", None), ("scores", "k", "{}")]
    assert server.service.unloaded == [("scores", "k")]
    status, answer = post("load", b'{"parameters":{"file:1/model.onnx":"QQ=="}}')
    assert (status, "files are not taken: ['1/model.onnx']" in answer["error"]) == (403, True)
    for place, content in (
        ("../x", "QQ=="),
        ("/x", "QQ=="),
        ("1/../x", "QQ=="),
        ("1/m.onnx", "?"),
        ("0/m", ""),
    ):
        status, _ = post("load", json.dumps({"parameters": {f"file:{place}": content}}).encode())
        assert status == 400, place
    assert post("load", b'{"parameters":{"config":7}}')[0] == 400
    assert post("unload", b'{"parameters":{"x":1}}')[0] == 400
    assert server.http("POST", "/v2/repository/models/unknown/load", b"", control=True)[0] == 404
    assert server.http("GET", "/v2/models/scores", control=True)[0] == 200
    assert server.http("POST", "/v2/models/scores/infer", b"{}", control=True)[0] == 404


def test_settings_are_checked_kept_and_given_back(server):
    def post(path, value):
        status, _, content = server.http("POST", path, json.dumps(value).encode(), control=True)
        return status, json.loads(content)

    _, settings = post("/v2/trace/setting", {"trace_level": ["TIMESTAMPS"], "trace_rate": 5})
    assert (settings["trace_level"], settings["trace_rate"]) == (["TIMESTAMPS"], "5")
    post("/v2/models/scores/trace/setting", {"trace_rate": "7"})
    _, _, content = server.http("GET", "/v2/models/scores/trace/setting")
    assert json.loads(content)["trace_rate"] == "7"
    _, settings = post("/v2/models/scores/trace/setting", {"trace_rate": None})
    assert settings["trace_rate"] == "5"
    assert post("/v2/models/unknown/trace/setting", {})[0] == 404
    _, settings = post("/v2/logging", {"log_verbose_level": 1})
    assert settings["log_verbose_level"] == 1
    for path, bad in [
        ("/v2/trace/setting", {"trace_level": ["LOUD"]}),
        ("/v2/trace/setting", {"trace_rate": "fast"}),
        ("/v2/trace/setting", {"trace_count": -2}),
        ("/v2/trace/setting", {"trace_file": "/tmp/x"}),
        ("/v2/trace/setting", {"unknown": 1}),
        ("/v2/logging", {"log_info": 1}),
        ("/v2/logging", {"log_file": "/tmp/x"}),
        ("/v2/logging", {"log_format": "mine"}),
        ("/v2/logging", {"log_verbose_level": -1}),
        ("/v2/logging", {"unknown": 1}),
    ]:
        assert post(path, bad)[0] == 400, bad
    post("/v2/logging", {"log_verbose_level": 0})
    post("/v2/trace/setting", {"trace_level": None, "trace_rate": None})


def raw(server, data, *, end=False):
    """What the server sends for bytes, until it closes or a second has passed without more."""
    with socket.create_connection(("127.0.0.1", server.front.http_port), timeout=10) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        connection.settimeout(1)
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except TimeoutError:
            return received, False
        return received, True


def test_a_client_that_goes_cancels_its_request(server):
    body = json.dumps(ONE).encode()
    with socket.create_connection(("127.0.0.1", server.front.http_port)) as connection:
        head = f"POST /v2/models/held/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert server.service.submitted.wait(10)
        assert not server.service.tickets[0].cancelled.is_set()
    assert server.service.tickets[0].cancelled.wait(10)


def test_requests_of_one_connection_are_answered_in_turn(server):
    body = json.dumps(ONE).encode()
    one = b"POST /v2/models/echo-FP32/infer HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    received, _ = raw(server, one * 3 + b"GET /v2/health/live HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert received.count(b"HTTP/1.1 200 OK") == 4
    assert received.endswith(b'{"live":true}')


def test_a_chunked_body_is_read(server):
    def parts():
        text = json.dumps(ONE).encode()
        yield text[:10]
        yield text[10:]

    connection = http.client.HTTPConnection("127.0.0.1", server.front.http_port, timeout=10)
    connection.request("POST", "/v2/models/echo-FP32/infer", parts(), encode_chunked=True)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["outputs"][0]["data"]) == (200, [1.0, 2.5])
    connection.close()


def test_a_body_is_waited_for_when_the_client_waits_to_send_it(server):
    body = json.dumps(ONE).encode()
    with socket.create_connection(("127.0.0.1", server.front.http_port), timeout=10) as connection:
        head = (
            f"POST /v2/models/echo-FP32/infer HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {len(body)}"
        )
        connection.sendall(head.encode() + b"\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


HEAD = b"POST /v2/models/echo-FP32/infer HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01 nonsense\r\n\r\n", 400),
        (b"GET /v2 HTTP/9.9\r\n\r\n", 400),
        (HEAD + b"content-length: -5\r\n\r\n", 400),
        (HEAD + b"content-length: 5, 5\r\n\r\n", 400),
        (HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", 400),
        (HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (HEAD + b"content-length: 99999999999\r\n\r\n", 413),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"x: " + b"y" * 9000, 431),
        (HEAD + b"x: y\r\n" * 3000 + b"\r\n", 431),
        (b"GET /v2 HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 400),
    ],
)
def test_a_bad_head_is_answered_in_json_and_ends_the_connection(server, data, status):
    received, closed = raw(server, data)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert set(json.loads(body)) == {"error"}
    assert closed


def test_a_chunked_body_beyond_the_limit_is_refused(server):
    chunk = b"%x\r\n%b\r\n" % (1 << 20, bytes(1 << 20))
    received, _ = raw(server, HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk * 5)
    assert received.startswith(b"HTTP/1.1 413 ")


def test_slow_clients_are_closed():
    limits = Limits(head_timeout_s=0.2, body_timeout_s=0.2, idle_timeout_s=0.2)
    with serve_frontends(FakeService(), http=HERE, limits=limits) as front:
        for data, told in [
            (b"", b""),
            (b"GET /v2", b" 408 "),
            (HEAD + b"content-length: 5\r\n\r\nab", b" 408 "),
        ]:
            with socket.create_connection(("127.0.0.1", front.http_port), timeout=10) as connection:
                connection.sendall(data)
                received = connection.recv(1000)
                assert told in received if told else received == b""


class Noted(list):
    """A log of visits."""

    lost = 0
    add = list.append


def test_requests_that_never_came_whole_are_counted_and_logged():
    limits = Limits(head_timeout_s=0.2, body_timeout_s=0.2, body_bytes=100, header_bytes=1000, connections=1)
    noted = Noted()
    visits = Visits(noted)
    with serve_frontends(FakeService(), http=HERE, limits=limits, visits=visits) as front:
        for data in (
            b"GET /v2",
            HEAD + b"x-api-key: k\r\ncontent-length: 5\r\n\r\nab",
            HEAD + b"content-length: 101\r\n\r\n",
            HEAD + b"x: " + b"y" * 1000,
            b"nonsense\r\n\r\n",
            b"GET /v2 HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        ):
            with socket.create_connection(("127.0.0.1", front.http_port), timeout=10) as connection:
                connection.sendall(data)
                while connection.recv(1000):
                    pass
            wait_until(lambda: not front._servers[0]._connections)
        with (
            socket.create_connection(("127.0.0.1", front.http_port)) as first,
            socket.create_connection(("127.0.0.1", front.http_port), timeout=10) as second,
        ):
            assert second.recv(1000).startswith(b"HTTP/1.1 503 ")
            first.sendall(HEAD + b"content-length: 50\r\n\r\nabc")
            wait_until(lambda: front._servers[0]._connections.body_bytes == 3)
        wait_until(lambda: len(noted) == 8)
    target = "POST /v2/models/echo-FP32/infer"
    assert [(visit.code, visit.target, visit.cause.name, visit.body_bytes) for visit in noted] == [
        (408, "", "INVALID", 0),
        (408, target, "INVALID", 2),
        (413, target, "TOO_LARGE", 0),
        (431, "", "TOO_LARGE", 0),
        (400, "", "INVALID", 0),
        (400, "GET /v2", "INVALID", 0),
        (503, "", "UNAVAILABLE", 0),
        (499, target, "CANCELLED", 3),
    ]
    assert (noted[1].tenant, noted[1].model) == ("k", "echo-FP32")
    assert all((visit.answer_bytes > 0) is (visit.code != 499) for visit in noted)
    assert all(visit.peer.startswith("127.0.0.1:") for visit in noted)
    assert all(visit.ended_s >= visit.arrived_s for visit in noted)
    assert visits.answers == {
        ("http", "other", "408"): 1,
        ("http", "infer", "408"): 1,
        ("http", "infer", "413"): 1,
        ("http", "other", "431"): 1,
        ("http", "other", "400"): 2,
        ("http", "other", "503"): 1,
        ("http", "infer", "499"): 1,
    }


def wait_until(reached):
    end_s = time.perf_counter() + 10
    while not reached():
        assert time.perf_counter() < end_s
        time.sleep(0.01)


def test_more_connections_than_the_limit_are_refused():
    with serve_frontends(FakeService(), http=HERE, limits=Limits(connections=1)) as front:
        address = ("127.0.0.1", front.http_port)
        with (
            socket.create_connection(address) as first,
            socket.create_connection(address, timeout=10) as second,
        ):
            assert second.recv(1000).startswith(b"HTTP/1.1 503 ")
            first.sendall(b"GET /v2/health/live HTTP/1.1\r\n\r\n")
            assert first.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_bodies_are_bounded_together_by_what_has_arrived():
    limits = Limits(all_bodies_bytes=3000)
    service = FakeService()
    body = json.dumps({**ONE, "id": "i" * 2000}).encode()
    request = b"POST /v2/models/held/infer HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    with serve_frontends(service, http=HERE, limits=limits) as front:
        address = ("127.0.0.1", front.http_port)
        with socket.create_connection(address) as idle, socket.create_connection(address) as first:
            idle.sendall(HEAD + b"content-length: 9000\r\n\r\nab")  # announced, but not there
            first.sendall(request)
            assert service.submitted.wait(10)
            with socket.create_connection(address, timeout=10) as second:
                second.sendall(request)
                assert second.recv(1000).startswith(b"HTTP/1.1 503 ")
        assert service.tickets[0].cancelled.wait(10)
        with socket.create_connection(address, timeout=10) as third:
            third.sendall(request.replace(b"held/infer", b"late/infer"))
            assert third.recv(1000).startswith(b"HTTP/1.1 504 ")


def test_health_is_answered_while_a_large_body_is_read(server):
    numbers = [0.125] * 100_000
    request = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [100_000], "data": numbers}]}
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(infer(server, request=request)[0])) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert server.http("GET", "/v2/health/live")[0] == 200
    assert statuses == [200] * 3


def test_closing_lets_requests_end_and_refuses_new_ones():
    service = FakeService()
    front = serve_frontends(service, http=HERE, limits=LIMITS)
    body = json.dumps(ONE).encode()
    connection = http.client.HTTPConnection("127.0.0.1", front.http_port, timeout=10)
    connection.request("POST", "/v2/models/held/infer", body)
    assert service.submitted.wait(10)
    closing = threading.Thread(target=front.close, args=(10,))
    closing.start()
    while True:  # until it listens no more
        try:
            socket.create_connection(("127.0.0.1", front.http_port), timeout=1).close()
        except OSError:
            break
        time.sleep(0.01)
    service.tickets[0].cancel()
    assert connection.getresponse().status == 499
    closing.join(10)
    assert not closing.is_alive()
    connection.close()
    front.close()


def test_closing_ends_requests_that_take_too_long():
    service = FakeService()
    front = serve_frontends(service, http=HERE, limits=LIMITS)
    connection = http.client.HTTPConnection("127.0.0.1", front.http_port, timeout=10)
    connection.request("POST", "/v2/models/held/infer", json.dumps(ONE).encode())
    assert service.submitted.wait(10)
    front.close(drain_s=0.05)
    assert service.tickets[0].cancelled.wait(10)
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()


def test_an_address_in_use_is_a_mistake_that_is_told():
    with (
        serve_frontends(FakeService(), http=HERE) as front,
        pytest.raises(HeadwayError, match=r"http: cannot listen on 127\.0\.0\.1"),
    ):
        serve_frontends(FakeService(), http=("127.0.0.1", front.http_port))


def test_more_routes_and_one_port_for_both_planes():
    def plain(request):
        return PlainTextResponse("metrics")

    def stream(request):
        return StreamingResponse(iter(["a", "b"]), media_type="text/plain")

    def defect(request):
        raise RuntimeError("/secret")

    routes = [Route("/metrics", plain), Route("/stream", stream), Route("/defect", defect)]
    service = FakeService()
    address = ("127.0.0.1", free_port())
    with serve_frontends(service, http=address, control=address, http_routes=routes) as front:
        assert front.control_port == front.http_port == address[1]
        connection = http.client.HTTPConnection(*address, timeout=10)
        for path, status, content in [("/metrics", 200, b"metrics"), ("/stream", 200, b"ab")]:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, content)
        connection.request("GET", "/defect")
        answer = connection.getresponse()
        assert (answer.status, b"secret" in answer.read()) == (500, False)
        connection.request("POST", "/v2/repository/models/scores/load")
        assert connection.getresponse().read() == b"{}"
        assert service.loaded == [("scores", None, None)]
        connection.close()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_limits_are_checked():
    with pytest.raises(HeadwayError, match=r"limits\.inputs: 0 is not above 0"):
        Limits(inputs=0)


def test_any_free_port_twice_is_two_ports():
    here = ("127.0.0.1", 0)
    with serve_frontends(FakeService(), http=here, grpc=here, control=here, control_grpc=here) as front:
        assert front.http_port != front.control_port
        assert front.grpc_port != front.control_grpc_port
