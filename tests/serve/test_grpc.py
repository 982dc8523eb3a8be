"""The gRPC front end, over sockets, with the fake service behind it."""

from __future__ import annotations

import threading
import time

import grpc
import numpy as np
import pytest
from conftest import HERE, LIMITS
from fake_service import FakeService
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.serve.frontends import serve_frontends
from headway.serve.grpc_codec import RequestReader
from headway.serve.grpc_wire import SplitRequest, split_request, varint
from headway.serve.limits import Limits
from headway.serve.protocol import health_pb2
from headway.serve.protocol import inference_pb2 as pb
from headway.serve.refusal import Refusal
from headway.serve.tensors import DTYPES, bytes_of
from headway.serve.visits import Visits


def wait_until(reached):
    end_s = time.perf_counter() + 10
    while not reached():
        assert time.perf_counter() < end_s
        time.sleep(0.01)


STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


def request_of(model="echo-FP32", datatype="FP32", array=None, **fields):
    array = np.array([1, 2.5], np.float32) if array is None else array
    request = pb.ModelInferRequest(model_name=model, **fields)
    request.inputs.add(name="x", datatype=datatype, shape=array.shape)
    request.raw_input_contents.append(bytes(bytes_of(array)))
    return request


def refused(server, method, request, **options):
    with pytest.raises(grpc.RpcError) as caught:
        server.grpc(method, request, **options)
    return caught.value.code(), caught.value.details(), dict(caught.value.trailing_metadata())


def test_raw_tensors_of_every_datatype_come_back(server):
    for name, dtype in DTYPES.items():
        array = np.array([b"a", b""], object) if name == "BYTES" else np.array([0, 1]).astype(dtype)
        response = server.grpc("ModelInfer", request_of(f"echo-{name}", name, array, id="a"))
        assert (response.id, response.outputs[0].datatype) == ("a", name)
        assert list(response.outputs[0].shape) == [2]
        assert response.raw_output_contents[0] == bytes(bytes_of(array))
        assert server.service.requests[-1].inputs["x"].dtype == dtype


TYPED = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-5, 5]),
    "INT32": ("int_contents", [-(2**31), 5]),
    "INT64": ("int64_contents", [-(2**63), 5]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 5]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, float("inf")]),
    "FP64": ("fp64_contents", [0.1, -1.0]),
    "BYTES": ("bytes_contents", [b"a", b"\xff"]),
}


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents(server, datatype):
    field, values = TYPED[datatype]
    request = pb.ModelInferRequest(model_name=f"echo-{datatype}")
    request.inputs.add(name="x", datatype=datatype, shape=[2], contents={field: values})
    server.grpc("ModelInfer", request)
    assert server.service.requests[-1].inputs["x"].tolist() == values


def test_many_typed_values(server):
    values = np.arange(100_000, dtype=np.float32)
    request = pb.ModelInferRequest(model_name="echo-FP32")
    request.inputs.add(name="x", datatype="FP32", shape=values.shape, contents={"fp32_contents": values})
    assert server.grpc("ModelInfer", request).raw_output_contents[0] == values.tobytes()


def typed(datatype="FP32", shape=(2,), **contents):
    request = pb.ModelInferRequest(model_name="echo-FP32")
    request.inputs.add(name="x", datatype=datatype, shape=shape, contents=contents)
    return request


def with_parameter(request, name, **value):
    request.parameters[name].CopyFrom(pb.InferParameter(**value))
    return request


def mixed():
    request = request_of()
    request.inputs[0].contents.fp32_contents.extend([1, 2])
    return request


def twice():
    request = request_of()
    request.inputs.append(request.inputs[0])
    request.raw_input_contents.append(request.raw_input_contents[0])
    return request


def in_shared_memory():
    request = typed(fp32_contents=[1, 2])
    request.inputs[0].parameters["shared_memory_region"].string_param = "r"
    return request


BAD = {
    "mixed": (mixed(), "has contents beside raw_input_contents"),
    "twice": (twice(), "'x' is given twice"),
    "no inputs": (pb.ModelInferRequest(model_name="echo-FP32"), "none is given"),
    "raw for nothing": (
        pb.ModelInferRequest(model_name="echo-FP32", raw_input_contents=[b"a"]),
        "none is given",
    ),
    "wrong raw length": (request_of(array=np.zeros(2, np.float64)), "16 bytes of data"),
    "wrong field": (typed(int_contents=[1, 2]), "has int_contents, FP32 is accepted in fp32_contents"),
    "too few": (typed(fp32_contents=[1]), "fp32_contents has 1 elements, shape [2] takes 2"),
    "out of range": (typed("INT8", int_contents=[1, 128]), "a number that INT8 cannot hold"),
    "typed FP16": (typed("FP16", fp32_contents=[1, 2]), "in raw_input_contents only"),
    "negative": (typed(shape=(-1,), fp32_contents=[1]), "holds -1"),
    "unknown datatype": (typed("FP99", fp32_contents=[1]), "'FP99' is not one of"),
    "shared memory": (in_shared_memory(), "there is no shared memory"),
    "bad timeout": (with_parameter(request_of(), "timeout", int64_param=-1), "timeout is -1"),
    "empty parameter": (with_parameter(request_of(), "timeout"), "'timeout' has no value"),
    "sequence": (with_parameter(request_of(), "sequence_id", string_param="s"), "keep no state"),
}


@pytest.mark.parametrize(("request_", "told"), BAD.values(), ids=BAD)
def test_bad_requests_are_invalid_arguments_that_tell_why(server, request_, told):
    code, details, _ = refused(server, "ModelInfer", request_)
    assert (code, told in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details


def test_bounds_priority_and_key_reach_the_service(server):
    request = with_parameter(request_of(), "timeout", int64_param=5_000_000)
    with_parameter(request, "priority", uint64_param=3)
    server.grpc("ModelInfer", request, timeout=3, metadata=[("authorization", "Bearer b")])
    server.grpc("ModelInfer", with_parameter(request, "deadline_ms", double_param=50.0))
    server.grpc("ModelInfer", request_of(), metadata=[("x-api-key", "k"), ("headway-deadline-ms", "20")])
    by_deadline, by_parameter, by_metadata = server.service.requests
    assert 0 < by_deadline.timeout_s < 4  # of 3 s, which gRPC rounds up on its way
    assert (by_deadline.key, by_deadline.priority) == ("b", -3)
    assert by_parameter.timeout_s == pytest.approx(0.05)
    assert (by_metadata.key, by_metadata.timeout_s) == ("k", pytest.approx(0.02))


def test_binary_data_size_of_an_input_is_ignored(server):
    request = request_of()
    request.inputs[0].parameters["binary_data_size"].int64_param = 1
    assert server.grpc("ModelInfer", request).outputs


def test_classification(server):
    request = request_of("scores", array=np.array([[0.1, 0.7, 0.2]], np.float32))
    request.outputs.add(name="y").parameters["classification"].int64_param = 1
    response = server.grpc("ModelInfer", request)
    assert response.outputs[0].datatype == "BYTES"
    assert response.raw_output_contents[0] == b"\x0e\0\0\x000.700000:1:dog"


def test_refusals_have_their_code_and_when_to_come_again(server):
    code, details, trailing = refused(server, "ModelInfer", request_of("refuse"))
    assert (code, details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "over the rate")
    assert trailing["retry-after"] == "2"
    assert trailing["grpc-retry-pushback-ms"] == "1500"
    assert float(trailing["headway-predicted-finish-ms"]) == 250
    assert refused(server, "ModelInfer", request_of("late"))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    assert refused(server, "ModelInfer", request_of("unknown"))[0] is grpc.StatusCode.NOT_FOUND
    key = [("x-api-key", "wrong")]
    assert refused(server, "ModelInfer", request_of(), metadata=key)[0] is grpc.StatusCode.UNAUTHENTICATED
    code, details, _ = refused(server, "ModelInfer", request_of("broken"))
    assert (code, "secret" in details) == (grpc.StatusCode.INTERNAL, False)


def test_a_cancelled_call_and_one_out_of_time_are_withdrawn(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.front.grpc_port}") as channel:
        send = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", pb.ModelInferRequest.SerializeToString
        )
        call = send.future(request_of("held"))
        assert server.service.submitted.wait(10)
        call.cancel()
        assert server.service.tickets[0].cancelled.wait(10)
    assert (
        refused(server, "ModelInfer", request_of("held"), timeout=0.1)[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    )
    assert server.service.tickets[1].cancelled.wait(10)


def stream(server, requests):
    with grpc.insecure_channel(f"127.0.0.1:{server.front.grpc_port}") as channel:
        call = channel.stream_stream(
            STREAM, pb.ModelInferRequest.SerializeToString, pb.ModelStreamInferResponse.FromString
        )
        return list(call(iter(requests), timeout=20))


def test_a_stream_is_answered_in_order_and_goes_on_after_a_refusal(server):
    requests = [request_of(id=str(i)) for i in range(5)]
    requests[1] = request_of("refuse", id="1")
    requests[3].ClearField("inputs")
    responses = stream(server, requests)
    assert [response.infer_response.id for response in responses] == ["0", "1", "2", "3", "4"]
    assert responses[1].error_message == "over the rate"
    assert "none is given" in responses[3].error_message
    assert [bool(response.error_message) for response in responses] == [False, True, False, True, False]
    assert responses[4].infer_response.raw_output_contents[0] == np.array([1, 2.5], np.float32).tobytes()
    assert "triton_final_response" not in responses[0].infer_response.parameters


def test_the_final_response_is_marked_when_asked_for(server):
    request = with_parameter(request_of(), "triton_enable_empty_final_response", bool_param=True)
    (response,) = stream(server, [request])
    assert response.infer_response.parameters["triton_final_response"].bool_param


def test_a_stream_that_is_cancelled_withdraws_its_requests(server):
    stop = threading.Event()

    def requests():
        yield request_of("held")
        stop.wait(10)

    with grpc.insecure_channel(f"127.0.0.1:{server.front.grpc_port}") as channel:
        call = channel.stream_stream(STREAM, pb.ModelInferRequest.SerializeToString)(requests())
        assert server.service.submitted.wait(10)
        call.cancel()
        stop.set()
        assert server.service.tickets[0].cancelled.wait(10)


def test_questions_about_server_and_models(server):
    assert server.grpc("ServerLive", pb.ServerLiveRequest()).live
    assert server.grpc("ServerReady", pb.ServerReadyRequest()).ready
    assert server.grpc("ModelReady", pb.ModelReadyRequest(name="scores", version="2")).ready
    assert "statistics" in server.grpc("ServerMetadata", pb.ServerMetadataRequest()).extensions
    metadata = server.grpc("ModelMetadata", pb.ModelMetadataRequest(name="scores"))
    assert (list(metadata.versions), list(metadata.inputs[0].shape)) == (["1", "2"], [-1, 3])
    config = server.grpc("ModelConfig", pb.ModelConfigRequest(name="scores")).config
    assert (config.max_batch_size, config.input[0].data_type, list(config.input[0].dims)) == (8, 11, [3])
    server.service.counts["scores"] = 3
    statistics = server.grpc("ModelStatistics", pb.ModelStatisticsRequest(name="scores"))
    assert statistics.model_stats[0].inference_stats.success.ns == 3000
    assert len(server.grpc("ModelStatistics", pb.ModelStatisticsRequest()).model_stats) > 5
    index = server.grpc("RepositoryIndex", pb.RepositoryIndexRequest())
    assert "UNAVAILABLE" in {model.state for model in index.models}
    server.service.is_ready = False
    assert not server.grpc("ServerReady", pb.ServerReadyRequest()).ready
    assert not server.grpc("ModelReady", pb.ModelReadyRequest(name="unknown")).ready
    metadata = pb.ModelMetadataRequest(name="unknown")
    assert refused(server, "ModelMetadata", metadata)[0] is grpc.StatusCode.NOT_FOUND


def test_shared_memory_is_empty_and_refused(server):
    for kind in ("System", "Cuda"):
        request = {name: getattr(pb, f"{kind}SharedMemory{name}Request") for name in ("Status", "Register")}
        assert not server.grpc(f"{kind}SharedMemoryStatus", request["Status"]()).regions
        code, details, _ = refused(server, f"{kind}SharedMemoryRegister", request["Register"](name="r"))
        assert (code, "not offered" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        unregister = getattr(pb, f"{kind}SharedMemoryUnregisterRequest")()
        server.grpc(f"{kind}SharedMemoryUnregister", unregister)
        code = refused(server, f"{kind}SharedMemoryStatus", request["Status"](name="r"))[0]
        assert code is grpc.StatusCode.NOT_FOUND


def test_what_changes_the_server_is_taken_on_the_control_port_alone(server):
    load = pb.RepositoryModelLoadRequest(model_name="scores")
    unload = pb.RepositoryModelUnloadRequest(model_name="scores")
    unload.parameters["unload_dependents"].bool_param = False
    trace = pb.TraceSettingRequest(settings={"trace_rate": {"value": ["5"]}})
    log = pb.LogSettingsRequest(settings={"log_verbose_level": {"uint32_param": 1}})
    for method, request in [
        ("RepositoryModelLoad", load),
        ("RepositoryModelUnload", unload),
        ("TraceSetting", trace),
        ("LogSettings", log),
    ]:
        code, details, _ = refused(server, method, request)
        assert (code, "control port" in details) == (grpc.StatusCode.PERMISSION_DENIED, True)
    load.parameters["config"].string_param = "{}"
    server.grpc("RepositoryModelLoad", load, control=True, metadata=[("x-api-key", "k")])
    server.grpc("RepositoryModelUnload", unload, control=True)
    assert (server.service.loaded, server.service.unloaded) == ([("scores", "k", "{}")], [("scores", None)])
    assert server.grpc("TraceSetting", trace, control=True).settings["trace_rate"].value == ["5"]
    assert server.grpc("TraceSetting", pb.TraceSettingRequest()).settings["trace_rate"].value == ["5"]
    trace.settings["trace_rate"].ClearField("value")
    assert server.grpc("TraceSetting", trace, control=True).settings["trace_rate"].value == ["1000"]
    assert server.grpc("LogSettings", log, control=True).settings["log_verbose_level"].uint32_param == 1
    log.settings["log_verbose_level"].uint32_param = 0
    server.grpc("LogSettings", log, control=True)
    load.parameters["file:1/model.onnx"].bytes_param = b"a"
    assert refused(server, "RepositoryModelLoad", load, control=True)[0] is grpc.StatusCode.PERMISSION_DENIED
    load.parameters["file:1/../../x"].bytes_param = b"a"
    assert refused(server, "RepositoryModelLoad", load, control=True)[0] is grpc.StatusCode.INVALID_ARGUMENT
    code = refused(server, "ModelInfer", request_of(), control=True)[0]
    assert code is grpc.StatusCode.PERMISSION_DENIED


def test_the_health_service(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.front.grpc_port}") as channel:
        codec = (health_pb2.HealthCheckRequest.SerializeToString, health_pb2.HealthCheckResponse.FromString)
        check = channel.unary_unary("/grpc.health.v1.Health/Check", *codec)
        assert check(health_pb2.HealthCheckRequest()).status == 1
        service = health_pb2.HealthCheckRequest(service="inference.GRPCInferenceService")
        assert check(service).status == 1
        with pytest.raises(grpc.RpcError) as caught:
            check(health_pb2.HealthCheckRequest(service="other"))
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", *codec)(health_pb2.HealthCheckRequest())
        assert next(watch).status == 1
        server.service.is_ready = False
        assert next(watch).status == 2
        watch.cancel()


def test_a_message_beyond_the_limit_is_refused(server):
    big = request_of(array=np.zeros((LIMITS.body_bytes + (1 << 20)) // 4, np.float32))
    code, details, _ = refused(server, "ModelInfer", big)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"{big.ByteSize()} bytes, at most" in details
    huge = request_of(array=np.zeros(LIMITS.body_bytes * 3 // 4, np.float32))  # which gRPC itself refuses
    assert refused(server, "ModelInfer", huge)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert server.grpc("ModelInfer", request_of()).outputs


def test_calls_whose_message_never_came_whole_are_counted():
    visits = Visits()
    service = FakeService()
    limits = Limits(body_bytes=100_000)
    answers = visits.answers
    with (
        serve_frontends(service, grpc=HERE, limits=limits, visits=visits) as front,
        grpc.insecure_channel(f"127.0.0.1:{front.grpc_port}") as channel,
    ):
        call = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(iter(()), timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "no message" in caught.value.details()
        assert answers["grpc", "infer", "INVALID_ARGUMENT"] == 1
        for size, code in ((250_000, "RESOURCE_EXHAUSTED"), (500_000, "CANCELLED")):
            with pytest.raises(grpc.RpcError) as caught:
                call(iter([bytes(size)]), timeout=20)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            wait_until(lambda code=code: answers["grpc", "infer", code] == 1)
        never = threading.Event()
        with pytest.raises(grpc.RpcError):
            call(iter(never.wait, True), timeout=0.2)
        wait_until(lambda: sum(answers.values()) == 4)
        never.set()


def test_who_watches_the_health_does_not_hold_up_the_end():
    front = serve_frontends(FakeService(), grpc=HERE)
    with grpc.insecure_channel(f"127.0.0.1:{front.grpc_port}") as channel:
        codec = (health_pb2.HealthCheckRequest.SerializeToString, health_pb2.HealthCheckResponse.FromString)
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", *codec)(health_pb2.HealthCheckRequest())
        assert next(watch).status == 1
        front.close(drain_s=20.0)
        assert list(watch) == []  # one that is cut off raises CANCELLED


def test_closing_lets_calls_end():
    service = FakeService()
    front = serve_frontends(service, grpc=HERE)
    with grpc.insecure_channel(f"127.0.0.1:{front.grpc_port}") as channel:
        send = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer", pb.ModelInferRequest.SerializeToString
        )
        call = send.future(request_of("held"))
        assert service.submitted.wait(10)
        closing = threading.Thread(target=front.close, args=(10,))
        closing.start()
        service.tickets[0].cancel()
        with pytest.raises(grpc.RpcError) as caught:
            call.result(10)
        assert caught.value.code() is grpc.StatusCode.CANCELLED
        closing.join(10)
        assert not closing.is_alive()


def field(number, wire_type, content):
    return varint(number << 3 | wire_type) + content


lengths = st.tuples(st.binary(max_size=20), st.integers(0, 4)).map(
    lambda drawn: (
        varint(len(drawn[0])) + drawn[0]
        if not drawn[1]
        else bytes([len(drawn[0]) | 0x80, *[0x80] * (drawn[1] - 1), 0]) + drawn[0]
    )
)
tensors = st.builds(
    lambda name, datatype, shape, typed: pb.ModelInferRequest.InferInputTensor(
        name=name, datatype=datatype, shape=shape, contents={"fp32_contents": typed} if typed else None
    ),
    st.sampled_from(["x", "z", ""]),
    st.sampled_from(["FP32", "BYTES", "BOOL", "FP99"]),
    st.lists(st.integers(-1, 3), max_size=2),
    st.lists(st.just(0.5), max_size=2),
)
fields = st.one_of(
    st.builds(field, st.integers(1, 8), st.just(2), lengths),
    st.builds(
        field,
        st.sampled_from([1, 2, 3]),
        st.just(2),
        st.text(max_size=3).map(lambda text: varint(len(text.encode())) + text.encode()),
    ),
    tensors.map(lambda tensor: field(5, 2, varint(tensor.ByteSize()) + tensor.SerializeToString())),
    st.builds(field, st.integers(1, 20), st.just(0), st.integers(0, 2**64 - 1).map(varint)),
    st.sampled_from(
        [b"\x7b\x7c", b"\xba\x00\x01z", b"\x3a\x05z", b"\x1a\x01\xff", b"\x3d\x00\x00\x00\x00", b"\x00"]
    ),
    st.binary(max_size=6),
)


def outcome(reader, split):
    """What is read, or why it is refused."""
    try:
        request = reader.read(split)
    except Refusal as refusal:
        return refusal.message
    return request.head, request.id, repr({name: array.tolist() for name, array in request.inputs.items()})


@settings(max_examples=300)
@given(st.lists(fields, max_size=7).map(b"".join))
def test_a_message_is_read_as_protobuf_reads_it(message):
    """Whatever it holds, and whether or not its head is remembered."""
    whole = outcome(RequestReader(LIMITS), SplitRequest(message, None, ()))
    reader = RequestReader(LIMITS)
    for _ in range(2):
        assert outcome(reader, split_request(message)) == whole


def test_heads_are_remembered_without_the_tensors_and_ids_of_their_requests():
    reader = RequestReader(LIMITS)
    for number in range(1200):
        array = np.array([number, number % 7], np.float32)
        message = request_of(f"m{number % 600}", array=array, id=str(number)).SerializeToString()
        request = reader.read(split_request(message))
        assert (request.head.model, request.id) == (f"m{number % 600}", str(number))
        np.testing.assert_array_equal(request.inputs["x"], array)
    assert len(reader._known) <= 512


@given(st.integers(0, 2**64 - 1))
def test_varints(value):
    message = pb.StatisticDuration(count=value).SerializeToString()
    assert message == (b"\x08" + varint(value) if value else b"")
