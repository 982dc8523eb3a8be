"""Requests and answers between bytes and arrays."""

from __future__ import annotations

import json
import zlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headway.serve.classification import best_classes
from headway.serve.codec import attach_binary, decode_head, encode_answer, wishes_for
from headway.serve.compression import accepted_encoding, compressed, decompressed
from headway.serve.limits import Limits
from headway.serve.refusal import Cause, Refusal
from headway.serve.service import InferenceResult, ModelDescription
from headway.serve.tensors import DTYPES, bytes_of, strings_to_bytes

LIMITS = Limits(body_bytes=1 << 20, json_bytes=1 << 16, elements=1 << 16, inputs=4)
NUMBERS = tuple(name for name in DTYPES if name != "BYTES")


def decode(inputs, binary=b"", **fields):
    text = json.dumps({"inputs": inputs, **fields}).encode()
    return attach_binary(decode_head(text, LIMITS), memoryview(binary), LIMITS)


def tensor(datatype="FP32", shape=(2,), data=None, size=None, name="x", **parameters):
    entry = {"name": name, "datatype": datatype, "shape": list(shape)}
    if data is not None:
        entry["data"] = data
    if size is not None:
        parameters["binary_data_size"] = size
    return {**entry, "parameters": parameters} if parameters else entry


def refused(*arguments, cause=Cause.INVALID, **fields):
    with pytest.raises(Refusal) as caught:
        decode(*arguments, **fields)
    assert caught.value.cause is cause
    assert len(caught.value.message) < 700
    return caught.value.message


def same(left, right):
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert bytes(bytes_of(left)) == bytes(bytes_of(right))


shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def arrays(draw, *, finite=False):
    name = draw(st.sampled_from(tuple(DTYPES)))
    shape = draw(shapes)
    if name == "BYTES":
        content = st.text(max_size=5).map(str.encode) if finite else st.binary(max_size=5)
        flat = draw(st.lists(content, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        array = np.empty(len(flat), object)
        array[:] = flat
        return name, array.reshape(shape)
    if name == "BF16":
        wide = draw(hnp.arrays(np.float32, shape, elements=st.floats(-1024, 1024, width=32)))
        return name, wide.astype(ml_dtypes.bfloat16)
    elements = {"allow_nan": False, "allow_infinity": False} if finite and name.startswith("FP") else {}
    return name, draw(hnp.arrays(DTYPES[name], shape, elements=elements))


@given(st.lists(arrays(), min_size=1, max_size=4))
def test_binary_tensors_come_back_as_they_were(tensors):
    parts = [bytes(bytes_of(array)) for _, array in tensors]
    entries = [
        tensor(datatype, array.shape, size=len(part), name=str(i))
        for i, ((datatype, array), part) in enumerate(zip(tensors, parts, strict=True))
    ]
    decoded = decode(entries, b"".join(parts))
    for i, (_, array) in enumerate(tensors):
        same(decoded[str(i)], array)


@given(arrays(finite=True), st.booleans())
def test_json_tensors_come_back_as_they_were(drawn, flat):
    datatype, array = drawn
    if array.dtype == object:
        data = np.vectorize(bytes.decode, otypes=[object])(array).tolist() if array.size else array.tolist()
    elif datatype in ("FP16", "BF16"):
        data = array.astype(np.float64).tolist()
    else:
        data = array.tolist()
    if flat or array.ndim == 0:
        values = array.ravel() if array.dtype == object else array.astype(np.float64).ravel()
        data = [data] if array.ndim == 0 else np.array(data, object).ravel().tolist()
        assert len(data) == len(values)
    same(decode([tensor(datatype, array.shape, data=data)])["x"], array)


@given(st.lists(arrays(finite=True), min_size=1, max_size=4), st.data())
def test_an_answer_can_be_read_back_as_a_request(tensors, data):
    outputs = {str(i): array for i, (_, array) in enumerate(tensors)}
    binary = {name: data.draw(st.booleans()) for name in outputs}
    asked = [{"name": name, "parameters": {"binary_data": binary[name]}} for name in outputs]
    head = decode_head(json.dumps({"inputs": [tensor(data=[1, 2])], "outputs": asked}).encode(), LIMITS)
    result = InferenceResult("m", "1", outputs)
    text, buffers = encode_answer(result, "id", wishes_for(head, result), None)
    answer = json.loads(text)
    assert answer["id"] == "id"
    assert [("parameters" in entry) for entry in answer["outputs"]] == list(binary.values())
    again = decode(answer["outputs"], b"".join(map(bytes, buffers)))
    for name, array in outputs.items():
        same(again[name], array)


def test_an_aligned_tensor_is_a_view_of_the_body_and_an_output_its_own_memory():
    body = np.zeros(1000, np.uint8)
    array = decode([tensor(shape=(250,), size=1000)], body.data)["x"]
    assert np.shares_memory(array, body)
    assert not array.flags.writeable
    output = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.shares_memory(np.frombuffer(bytes_of(output), np.uint8), output)


def test_an_unaligned_tensor_is_aligned():
    body = np.arange(9, dtype=np.uint8)
    array = decode([tensor(size=8)], body.data[1:])["x"]
    assert array.flags.aligned
    assert array.tobytes() == body[1:].tobytes()


BAD_INPUTS = {
    "no data": (tensor(), "has neither data nor"),
    "both": (tensor(data=[1, 2], size=8), "only one is accepted"),
    "unknown datatype": (tensor("FP99", data=[1, 2]), "datatype 'FP99' is not one of BOOL"),
    "datatype of another type": ({"name": "x", "shape": [1], "datatype": 7, "data": [1]}, "datatype is 7"),
    "negative": (tensor(shape=(-1,), data=[1, 2]), "holds -1"),
    "fractional": (tensor(shape=(2.0,), data=[1, 2]), "holds 2.0"),
    "truth as a size": (tensor(shape=(True,), data=[1]), "holds True"),
    "huge": (tensor(shape=(2**70, 0), data=[]), "the limit is 65536"),
    "shape of another type": ({"name": "x", "shape": 2, "datatype": "FP32", "data": [1]}, "shape is 2"),
    "too few": (tensor(data=[1]), "data hold 1 values, shape [2] takes 2"),
    "too many": (tensor(data=[1, 2, 3]), "data hold 3 values"),
    "ragged": (tensor(shape=(2, 2), data=[[1, 2], [3]]), "unequal length"),
    "mixed depth": (tensor(shape=(2, 2), data=[[1, 2], 3]), "mix lists and values"),
    "too deep": (tensor(data=[[1], [2]]), "nested deeper"),
    "wrong nesting": (tensor(shape=(2, 3), data=[[1, 2], [3, 4], [5, 6]]), "nested as [3, 2]"),
    "a number": (tensor(data=7), "data are 7"),
    "a string in numbers": (tensor(data=[1, "2"]), "data hold '2', FP32 takes a number"),
    "null": (tensor(data=[1, None]), "data hold None"),
    "truth in numbers": (tensor("INT32", data=[1, True]), "data hold True, INT32 takes an integer"),
    "a fraction in integers": (tensor("INT32", data=[1, 2.5]), "data hold 2.5"),
    "numbers as truth": (tensor("BOOL", data=[0, 1]), "takes true or false"),
    "numbers as strings": (tensor("BYTES", data=[0, 1]), "takes a string"),
    "too large for it": (tensor("INT8", data=[1, 128]), "a number that INT8 cannot hold"),
    "below zero": (tensor("UINT64", data=[1, -1]), "a number that UINT64 cannot hold"),
    "infinite in it": (tensor("FP32", data=[1, 1e39]), "a number that FP32 cannot hold"),
    "no name": ({"datatype": "FP32", "shape": [1], "data": [1]}, "inputs[0]: name is None"),
    "no object": (7, "inputs[0]: 7 is not an object"),
    "size too long": (tensor(size=12), "but 8 bytes of the body are left"),
    "size too short": (tensor(size=4), "takes 8"),
    "negative size": (tensor(size=-1), "binary_data_size is -1"),
    "shared memory": (tensor(shared_memory_region="r", size=8), "there is no shared memory"),
    "a list as parameter": (tensor(size=8, more=[1]), "a number, a string, true or false"),
}


@pytest.mark.parametrize(("entry", "told"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_a_bad_input_is_refused_with_what_is_wrong(entry, told):
    assert told in refused([entry], bytes(8))


def test_bytes_that_no_input_takes_are_refused():
    assert "4 bytes are left" in refused([tensor(size=8)], bytes(12))


def test_an_input_given_twice_is_refused():
    assert "'x' is given twice" in refused([tensor(data=[1, 2]), tensor(data=[1, 2])])


def test_no_inputs_are_refused():
    assert "none is given" in refused([])


def test_a_truth_value_of_another_byte_is_refused():
    assert "a BOOL of byte 2" in refused([tensor("BOOL", size=2)], b"\x01\x02")


@pytest.mark.parametrize(
    "data", [b"\x05\0\0\0ab", b"\xff\xff\xff\xffab", b"\x01\0\0\0a", b"\x01\0\0\0a\x01\0\0\0bc"]
)
def test_strings_that_do_not_fill_their_bytes_are_refused(data):
    assert "BYTES element" in refused([tensor("BYTES", size=len(data))], data)


def test_limits_are_told_as_such():
    assert "at most 65536" in refused([tensor("INT8", (300, 300), data=[])], cause=Cause.TOO_LARGE)
    many = [tensor(data=[1, 2], name=str(i)) for i in range(5)]
    assert "at most 4" in refused(many, cause=Cause.TOO_LARGE)
    assert "at most 32" in refused([tensor(shape=(1,) * 33, data=[1])])
    assert "the JSON has" in refused([tensor(data=[1, 2])], id="i" * (1 << 16), cause=Cause.TOO_LARGE)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"id": 7}, "id is 7"),
        ({"parameters": 7}, "parameters: 7 is not an object"),
        ({"parameters": {"a": None}}, "'a' is None"),
        ({"parameters": {"binary_data_output": 1}}, "binary_data_output is 1"),
        ({"parameters": {"sequence_id": 3}}, "keep no state"),
        ({"outputs": {}}, "outputs: {} is not a list"),
        ({"outputs": [{"name": "y"}, {"name": "y"}]}, "given twice"),
        ({"outputs": [{"name": "y", "parameters": {"classification": 0}}]}, "classification is 0"),
        ({"outputs": [{"name": "y", "parameters": {"shared_memory_region": "r"}}]}, "no shared memory"),
    ],
)
def test_other_bad_fields_are_refused(fields, told):
    assert told in refused([tensor(data=[1, 2])], **fields)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b'{"inputs":NaN}',
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[Infinity]}]}',
        b'{"inputs":[{"name":"x","datatype":"FP64","shape":[1],"data":[1e999]}]}',
        b'{"inputs":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"inputs":[{"name":"x","datatype":"INT64","shape":[1],"data":[' + b"9" * 5000 + b"]}]}",
        b'{"inputs":[]} {}',
    ],
)
def test_what_is_no_json_is_refused(text):
    with pytest.raises(Refusal) as caught:
        decode_head(text, LIMITS)
    assert caught.value.cause is Cause.INVALID


@settings(max_examples=150)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=20)
)
def test_any_json_value_as_data_is_taken_or_refused(data):
    for datatype in ("FP16", "INT8", "BYTES", "BOOL"):
        try:
            array = decode([tensor(datatype, (2,), data=data if data is not None else [None])])["x"]
        except Refusal:
            continue
        assert array.shape == (2,)


@settings(max_examples=150)
@given(st.binary(max_size=60), st.sampled_from(tuple(DTYPES)), st.lists(st.integers(-2, 5), max_size=3))
def test_any_bytes_as_a_tensor_are_taken_or_refused(data, datatype, shape):
    try:
        array = decode([tensor(datatype, shape, size=len(data))], data)["x"]
    except Refusal:
        return
    assert array.shape == tuple(shape)
    assert bytes(bytes_of(array)) == data


def test_values_that_json_has_no_form_for_are_refused_with_a_way_out():
    head = decode_head(json.dumps({"inputs": [tensor(data=[1, 2])]}).encode(), LIMITS)
    strings = np.array([b"\xff"], object)
    for array in (np.array([np.nan]), np.array([np.inf], np.float16), strings):
        result = InferenceResult("m", "1", {"y": array})
        with pytest.raises(Refusal, match="binary_data"):
            encode_answer(result, "", wishes_for(head, result), None)


SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.0, 0.5]], np.float32)


def test_the_best_classes_of_each_of_a_batch():
    best = best_classes(SCORES, 2, ("a", "b"), True, "y")
    assert best.tolist() == [[b"0.700000:1:b", b"0.200000:2"], [b"0.500000:0:a", b"0.500000:2"]]


def test_without_a_batch_all_scores_are_one_vector():
    assert best_classes(SCORES, 1, (), False, "y").tolist() == [b"0.700000:1"]
    assert best_classes(np.array([3, 250], np.uint8), 9, (), False, "y").tolist() == [b"250:1", b"3:0"]


def test_classes_of_strings_are_refused():
    with pytest.raises(Refusal, match="needs numbers"):
        best_classes(np.array([b"a"], object), 1, (), False, "y")


def test_classification_replaces_an_output():
    description = ModelDescription("m", "1", ("1",), "p", (), (), labels={"y": ("a", "b", "c")})
    asked = [{"name": "y", "parameters": {"classification": 1, "binary_data": True}}]
    head = decode_head(json.dumps({"inputs": [tensor(data=[1, 2])], "outputs": asked}).encode(), LIMITS)
    result = InferenceResult("m", "1", {"y": SCORES})
    text, (content,) = encode_answer(result, "", wishes_for(head, result), description)
    assert json.loads(text)["outputs"][0]["datatype"] == "BYTES"
    assert content == strings_to_bytes(np.array([b"0.700000:1:b"], object))


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@given(content=st.binary(max_size=500))
def test_compressed_bodies_come_back_as_they_were(encoding, content):
    packed = compressed([content[:100], memoryview(content)[100:]], encoding)
    assert decompressed(packed, encoding, 500) == content


def test_raw_deflate_is_read_too():
    encoder = zlib.compressobj(wbits=-15)
    assert decompressed(encoder.compress(b"abc") + encoder.flush(), "deflate", 3) == b"abc"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_refused_at_the_limit(encoding):
    bomb = compressed([bytes(64 << 20)], encoding)
    assert len(bomb) < 1 << 20
    with pytest.raises(Refusal) as caught:
        decompressed(bomb, encoding, 1 << 20)
    assert caught.value.cause is Cause.TOO_LARGE


@pytest.mark.parametrize(
    "data", [b"", b"abc", compressed([b"abc"], "gzip")[:-1], compressed([b"a"], "gzip") + b"x"]
)
def test_what_is_no_whole_stream_is_refused(data):
    with pytest.raises(Refusal, match="not one whole gzip stream"):
        decompressed(data, "gzip", 100)


def test_another_encoding_is_refused():
    with pytest.raises(Refusal, match="'br' is not one of gzip"):
        decompressed(b"", "br", 100)


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("deflate, gzip;q=0.5", "deflate"),
        ("gzip;q=0", None),
        ("identity", None),
        ("*", "gzip"),
        ("gzip;q=nonsense", None),
        ("", None),
    ],
)
def test_the_preferred_encoding(header, encoding):
    assert accepted_encoding(header) == encoding
