"""Loading, swapping, draining and unloading while requests are under way."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from served_world import ServedWorld, ToyInstaller

from headway.serve.lifecycle import Models
from headway.serve.polling import Poller
from headway.serve.refusal import Cause, Refusal
from headway.serve.repository import ModelSource, Repository
from headway.serve.service import ModelState

SECONDS = {"m": (1e-3,), "n": (1e-3,), "bad": (1e-3,)}


def put(root: Path, name: str, *versions: str, content: bytes = b"onnx") -> Path:
    for version in versions:
        folder = root / name / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(content)
    return root / name


def states(models: Models, *, only_ready: bool = False) -> dict[tuple[str, str], str]:
    return {(each.name, each.version): each.state.value for each in models.index(only_ready=only_ready)}


@pytest.fixture
def installer() -> ToyInstaller:
    return ToyInstaller(SECONDS)


@pytest.fixture
def models(tmp_path: Path, installer: ToyInstaller) -> Any:
    put(tmp_path, "m", "1", "2")
    put(tmp_path, "bad", "1")
    made = Models(installer, Repository(tmp_path))
    yield made
    made.close()


def test_a_model_is_loaded_again_without_dropping_what_is_under_way() -> None:
    world = ServedWorld([{"name": "a"}])
    old = world.models.find("long", "").key
    world.infer(0.0, "before", "long")
    world.at(1e-3, lambda: world.models.load("long").result())
    world.infer(2e-3, "after", "long")
    removed_early: list[bool] = []
    world.at(7e-3, lambda: removed_early.append(old in world.installer.removed))
    world.play()
    assert world.how("before", "after") == ["done", "done"]
    assert removed_early == [False]
    assert world.installer.removed == [old]
    new = world.models.find("long", "").key
    assert new != old
    assert {row.model for row in world.rows if row.event == "start"} == {old, new}
    assert world.service.statistics("long")[0].success.count == 2, "statistics outlive a reload"


def test_unloading_waits_for_what_is_under_way_and_lets_nothing_more_in() -> None:
    world = ServedWorld([{"name": "a"}])
    ended: list[Future[None]] = []
    states_then: list[str] = []
    world.infer(0.0, "before", "long")

    def unload() -> None:
        world.models.forget("long")
        ended.append(world.models.unload("long"))
        while states(world.models)["long", "1"] != "UNLOADING":
            pass

    world.at(1e-3, unload)
    world.infer(2e-3, "during", "long")
    world.at(3e-3, lambda: states_then.append(states(world.models)["long", "1"]))
    world.at(8.5e-3, lambda: ended[0].result(10))
    world.infer(9e-3, "after", "long")
    world.play()
    assert world.how("before", "during", "after") == ["done", "UNAVAILABLE", "NOT_FOUND"]
    assert states_then == ["UNLOADING"]
    assert "long" not in {key.partition("/")[0] for key in world.installer.tables}


def test_several_versions_are_served_at_once_and_the_newest_by_default(
    tmp_path: Path, models: Models
) -> None:
    (tmp_path / "m" / "headway.yaml").write_text("version_policy: {all: {}}\n")
    models.load("m").result()
    assert models.versions("m") == ("1", "2")
    assert models.find("m", "").version == "2"
    assert models.find("m", "1").version == "1"
    (tmp_path / "m" / "headway.yaml").write_text("version_policy: {specific: {versions: [1]}}\n")
    models.load("m").result()
    assert states(models)["m", "2"] == "UNAVAILABLE"
    assert models.find("m", "").version == "1"
    with pytest.raises(Refusal, match="'m' version 2 is not loaded: unloaded"):
        models.find("m", "2")


def test_a_model_that_cannot_be_loaded_is_unavailable_with_its_reason(
    installer: ToyInstaller, models: Models, tmp_path: Path
) -> None:
    installer.broken["bad"] = f"{tmp_path}/bad/1/model.onnx: not an ONNX model"
    with pytest.raises(Refusal, match="not an ONNX model") as refused:
        models.load("bad").result()
    assert str(tmp_path) not in refused.value.message
    (entry,) = [each for each in models.index(only_ready=False) if each.name == "bad"]
    assert entry.state is ModelState.UNAVAILABLE
    assert "not an ONNX model" in entry.reason
    assert str(tmp_path) not in entry.reason
    models.load("m").result()
    assert states(models, only_ready=True) == {("m", "2"): "READY"}
    assert not models.is_ready("bad", "")
    with pytest.raises(Refusal, match="not an ONNX model"):
        models.find("bad", "")
    del installer.broken["bad"]
    models.load("bad").result()
    assert models.is_ready("bad", "")


def test_whatever_loading_raises_the_next_model_is_loaded(installer: ToyInstaller, models: Models) -> None:
    def raise_defect(source: ModelSource) -> None:
        if source.name == "bad":
            raise RuntimeError("a defect")

    installer.before = raise_defect
    with pytest.raises(Refusal, match="RuntimeError: a defect"):
        models.load("bad").result()
    models.load("m").result()
    assert states(models) == {("bad", "1"): "UNAVAILABLE", ("m", "2"): "READY"}


def test_a_folder_that_cannot_be_read_is_unavailable(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Repository, name: str) -> Any:
        raise PermissionError(13, "Permission denied", "/secret/place")

    monkeypatch.setattr(Repository, "versions", unreadable)
    with pytest.raises(Refusal, match="m: Permission denied") as refused:
        models.load("m").result()
    assert "secret" not in refused.value.message
    assert states(models)["m", "0"] == "UNAVAILABLE"


def test_a_reload_that_fails_leaves_the_old_one_serving(installer: ToyInstaller, models: Models) -> None:
    models.load("m").result()
    old = models.find("m", "")
    installer.broken["m"] = "worse than before"
    with pytest.raises(Refusal, match="worse than before"):
        models.load("m").result()
    assert models.find("m", "") is old
    assert installer.removed == []
    assert states(models)["m", "2"] == "READY"


def test_models_that_nobody_knows_are_not_found(models: Models) -> None:
    for future in (models.load("nothing"), models.unload("nothing"), models.load("../m")):
        with pytest.raises(Refusal) as refused:
            future.result()
        assert refused.value.cause is Cause.NOT_FOUND
    assert states(models) == {("bad", ""): "UNAVAILABLE", ("m", ""): "UNAVAILABLE"}
    with pytest.raises(Refusal):
        models.is_ready("nothing", "")


def test_while_it_is_loaded_a_model_is_loading(installer: ToyInstaller, models: Models) -> None:
    seen: list[str] = []

    def look(source: ModelSource) -> None:
        seen.append(states(models)["m", "2"])
        with pytest.raises(Refusal, match="is being loaded") as refused:
            models.find("m", "")
        assert refused.value.cause is Cause.UNAVAILABLE

    installer.before = look
    models.load("m").result()
    assert seen == ["LOADING"]


def test_polling_loads_what_is_new_again_what_changed_and_unloads_what_is_gone(
    tmp_path: Path, installer: ToyInstaller
) -> None:
    put(tmp_path, "m", "1")
    repository, said = Repository(tmp_path), []
    models = Models(installer, repository)
    poller = Poller(models, repository, 3600.0, said.append)

    def look() -> int:
        futures = poller.look()
        for future in futures:
            future.exception(10)
        return len(futures)

    for future in poller.start():
        future.result(10)
    assert models.is_ready("m", "")
    assert look() == 0
    put(tmp_path, "n", "1")
    assert look() == 0, "it may be half copied"
    assert look() == 1
    put(tmp_path, "m", "2")
    assert (look(), look(), look()) == (0, 1, 0)
    assert models.versions("m") == ("2",)
    (tmp_path / "m" / "2" / "model.onnx").unlink()
    (tmp_path / "m" / "2").rmdir()
    (tmp_path / "m" / "1" / "model.onnx").unlink()
    (tmp_path / "m" / "1").rmdir()
    (tmp_path / "m").rmdir()
    assert look() == 1
    assert states(models, only_ready=True) == {("n", "1"): "READY"}
    installer.broken["bad"] = "no"
    put(tmp_path, "bad", "1")
    look()
    look()
    assert len(said) == 1
    assert "no" in said[0]
    poller.close()
    models.close()


def test_only_those_with_a_key_for_it_load_and_no_configuration_is_taken_unasked() -> None:
    from headway.serve.keys import hash_of, new_key

    key = new_key()
    world = ServedWorld([{"name": "a"}], control_keys=[hash_of(key)])

    def refused(coroutine: Any) -> Cause:
        with pytest.raises(Refusal) as found:
            asyncio.run(coroutine)
        return found.value.cause

    service = world.service
    assert refused(service.load("short", None)) is Cause.UNAUTHENTICATED
    assert refused(service.unload("short", "wrong")) is Cause.UNAUTHENTICATED
    assert refused(service.load("short", key, "{}")) is Cause.FORBIDDEN
    assert refused(service.load("nothing", key)) is Cause.NOT_FOUND
    asyncio.run(service.load("short", key))
    asyncio.run(service.unload("short", key))
    with pytest.raises(Refusal):
        service.describe("short")
    world.play()


def test_draining_answers_what_is_there_and_takes_nothing_more() -> None:
    world = ServedWorld([{"name": "a"}])
    world.infer(0.0, "before", "long")
    world.at(1e-3, lambda: world.service.drain(0.0))
    world.infer(2e-3, "after")
    world.play()
    assert world.told("after")[1] == "UNAVAILABLE"
    assert world.told("before") == (pytest.approx(1e-3), "UNAVAILABLE"), "its limit was none at all"
