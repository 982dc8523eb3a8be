"""Keys, what tenants may use, and bounds that are exact under bursts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_world import ServedWorld

from headway.config.serving import Serving
from headway.core.errors import HeadwayError
from headway.serve.keys import PREFIX, hash_of, new_key, owner_of
from headway.serve.refusal import Cause, Refusal
from headway.serve.tenants import Tenants, TokenBucket

A, B, CONTROL = new_key(), new_key(), new_key()


def serving(tenants: list[dict[str, Any]], **more: Any) -> Serving:
    models = [{"name": "short", "model": "kws_res8"}, {"name": "long", "model": "kws_res8"}]
    return Serving.from_mapping({"hardware": "cpu-lanes", "models": models, "tenants": tenants, **more})


def test_keys_are_long_random_and_known_by_their_hash() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith(PREFIX) and len(key) >= 43 for key in keys)
    assert owner_of(A, {hash_of(A): "a", hash_of(B): "b"}) == "a"
    assert owner_of(A[:-1], {hash_of(A): "a"}) is None
    assert owner_of(hash_of(A), {hash_of(A): "a"}) is None
    assert owner_of("x" * 10_000_000, {hash_of(A): "a"}) is None


def test_a_key_is_its_tenant_and_nobody_else_comes_in() -> None:
    tenants = Tenants(
        serving([{"name": "a", "keys": [hash_of(A)]}, {"name": "b", "keys": [hash_of(B)]}]), 0.0
    )
    assert tenants.of(A).settings.name == "a"
    assert tenants.of(B).settings.name == "b"
    assert not tenants.anonymous
    for key in (None, "", "a", hash_of(A), new_key()):
        with pytest.raises(Refusal) as refused:
            tenants.of(key)
        assert refused.value.cause is Cause.UNAUTHENTICATED
        assert not key or len(key) < 5 or key not in refused.value.message


def test_without_keys_everybody_is_anonymous_or_says_who_it_is() -> None:
    nobody = Tenants(serving([]), 0.0)
    assert nobody.anonymous
    assert nobody.of(None).settings.name == "anonymous"
    two = Tenants(serving([{"name": "a"}, {"name": "b"}]), 0.0)
    assert two.of("b").settings.name == "b"
    assert two.of(None).settings.name == "anonymous"
    assert Tenants(serving([{"name": "a"}]), 0.0).of(None).settings.name == "a"


def test_models_of_others_are_forbidden() -> None:
    world = ServedWorld(
        [
            {"name": "a", "keys": [hash_of(A)], "models": ["short"]},
            {"name": "b", "keys": [hash_of(B)]},
        ]
    )
    world.infer(0.0, "own", key=A)
    world.infer(0.0, "other", "long", key=A)
    world.infer(0.0, "all", "long", key=B)
    world.infer(0.0, "nobody", "long")
    world.play()
    assert world.how("own", "other", "all", "nobody") == ["done", "FORBIDDEN", "done", "UNAUTHENTICATED"]


def test_the_queue_is_bounded_by_count_and_by_bytes_exactly() -> None:
    world = ServedWorld(
        [
            {"name": "a", "keys": [hash_of(A)], "queue": {"requests": 3, "size": "1 kB"}},
            {"name": "b", "keys": [hash_of(B)], "queue": {"requests": 100, "size": "1 kB"}},
        ]
    )
    for number in range(5):
        world.infer(0.0, f"a{number}", key=A)
    for number in range(5):
        world.infer(0.0, f"b{number}", key=B, body_bytes=400)
    world.infer(0.0, "large", key=B, body_bytes=1001)
    world.infer(1.5e-3, "a later", key=A)
    world.play()
    assert world.how(*[f"a{n}" for n in range(5)]) == ["done"] * 3 + ["LIMITED"] * 2
    assert world.how(*[f"b{n}" for n in range(5)]) == ["done"] * 2 + ["LIMITED"] * 3
    assert world.how("large", "a later") == ["TOO_LARGE", "done"]


def test_bursts_get_through_exactly_and_then_the_rate() -> None:
    world = ServedWorld([{"name": "a", "rate": "100 /s", "burst": 4}])
    for number in range(6):
        world.infer(0.0, f"{number}")
    world.infer(9.9e-3, "too early")
    world.infer(10.1e-3, "in time")
    world.play()
    assert world.how(*[f"{n}" for n in range(6)]) == ["done"] * 4 + ["LIMITED"] * 2
    assert world.refusal("4").retry_after_s == pytest.approx(10e-3)
    assert world.how("too early", "in time") == ["LIMITED", "done"]


@given(
    rate=st.floats(0.1, 1000.0),
    burst=st.integers(1, 20),
    gaps_s=st.lists(st.floats(0.0, 0.5), min_size=1, max_size=60),
)
def test_a_bucket_never_lets_more_through_than_burst_and_rate(
    rate: float, burst: int, gaps_s: list[float]
) -> None:
    bucket, now, passed = TokenBucket(rate, burst, 0.0), 0.0, []
    for gap_s in gaps_s:
        now += gap_s
        wait_s = bucket.take(now)
        if wait_s == 0.0:
            passed.append(now)
        else:
            assert TokenBucket(rate, 1.0, now).take(now) == 0.0
            assert wait_s <= 1.0 / rate + 1e-9
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + rate * (passed[last] - passed[first]) + 1e-6


def test_bounds_hold_when_many_threads_come_at_once() -> None:
    door = Tenants(serving([{"name": "a", "rate": "0.001 /s", "burst": 50}]), 0.0).of(None)
    let_in: list[int] = []

    def come() -> None:
        for _ in range(20):
            try:
                door.enter(1, 0.0)
                let_in.append(1)
            except Refusal:
                pass

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(let_in) == door.requests == door.bytes == 50


def test_another_configuration_takes_effect_without_losing_count() -> None:
    old = serving([{"name": "a", "keys": [hash_of(A)], "queue": {"requests": 2}}])
    new = serving([{"name": "a", "keys": [hash_of(B)], "queue": {"requests": 3}, "models": ["long"]}])
    tenants = Tenants(old, 0.0)
    door = tenants.of(A)
    door.enter(10, 0.0)
    door.enter(10, 0.0)
    tenants.change(new, 1.0)
    assert tenants.of(B) is door
    with pytest.raises(Refusal):
        tenants.of(A)
    door.enter(10, 1.0)
    with pytest.raises(Refusal, match="3 requests"):
        door.enter(10, 1.0)
    assert not door.settings.may_use("short")


def test_a_tightened_rate_does_not_refill_the_bucket() -> None:
    config = [{"name": "a", "rate": "1 /s", "burst": 1}]
    tenants = Tenants(serving(config), 0.0)
    tenants.of(None).enter(0, 0.0)
    tenants.change(serving(config), 0.1)
    with pytest.raises(Refusal, match="rate"):
        tenants.of(None).enter(0, 0.1)


def test_only_control_keys_and_admins_change_models() -> None:
    tenants = Tenants(
        serving(
            [
                {"name": "admin", "keys": [hash_of(A)], "admin": True},
                {"name": "user", "keys": [hash_of(B)]},
            ],
            control_keys=[hash_of(CONTROL)],
        ),
        0.0,
    )
    tenants.require_control(CONTROL)
    tenants.require_control(A)
    for key, cause in ((B, Cause.FORBIDDEN), (None, Cause.UNAUTHENTICATED), ("x", Cause.UNAUTHENTICATED)):
        with pytest.raises(Refusal) as refused:
            tenants.require_control(key)
        assert refused.value.cause is cause
    Tenants(serving([]), 0.0).require_control(None)
    with pytest.raises(Refusal):
        Tenants(serving([], control_keys=[hash_of(CONTROL)]), 0.0).require_control(None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tenants": [{"name": "a", "keys": ["my key"]}]}, r"tenants\[0\].keys\[0\]: found no hash"),
        ({"tenants": [{"name": "a", "rate": 5}]}, r"tenants\[0\].rate: found 5: a number without a unit"),
        ({"tenants": [{"name": "a", "burst": 5}]}, r"tenants\[0\].burst: needs a rate"),
        ({"tenants": [{"name": "a", "models": ["shrot"]}]}, r"models\[0\]: no model named 'shrot' \(did you"),
        ({"tenants": [{"name": "a", "slas": {"x": {"deadline": "1 s"}}}]}, r"slas.x: no model named 'x'"),
        ({"tenants": [{"name": "a"}, {"name": "a"}]}, r"tenants\[1\].name: name 'a' is already taken"),
        (
            {"tenants": [{"name": "a", "keys": [hash_of(A)]}, {"name": "b", "keys": [hash_of(A)]}]},
            r"tenants\[1\].keys\[0\]: this key is already that of tenant 'a'",
        ),
        ({"hardware": "moca8"}, r"hardware: 'moca8' is an accelerator"),
        ({"models": []}, "neither models nor a repository"),
        ({"repository": {"path": "nowhere"}}, r"repository.path: no folder nowhere"),
        ({"models": [{"name": "a", "model": "no.onnx"}]}, r"models\[0\].model: no file no.onnx"),
        ({"models": [{"name": "a", "dims": {"n": 1}}]}, r"models\[0\].dims: dims are for .onnx files"),
        ({"tennants": []}, r"unknown key \(did you mean 'tenants'\?\)"),
    ],
)
def test_mistakes_name_the_field_and_what_is_accepted(changes: dict[str, Any], words: str) -> None:
    data = {"hardware": "cpu-lanes", "models": [{"name": "short", "model": "kws_res8"}], **changes}
    with pytest.raises(HeadwayError, match=words) as found:
        Serving.from_mapping(data, "", name="file")
    assert str(found.value).startswith("file: ")
    assert "my key" not in str(found.value), "a key in clear must not get into logs"
