"""Taking models in, and keeping what was measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headway.core.errors import HeadwayError
from headway.live import cache as cache_module
from headway.live import node_profile, profiler, rehearsal
from headway.live.cache import ProfileCache, cache_folder
from headway.live.processors import available, machine, runtime
from headway.live.profiler import Intake, take_in
from headway.live.rehearsal import disturbance
from headway.models import load_model, zoo
from headway.models.boundary_cost import BoundaryCost
from headway.models.even import BlockLimits
from headway.models.profile import ModelProfile

FINE = BlockLimits(target_s=0.3e-3, longest_s=0.6e-3, overhead_share=1.0)
ONE = {1: available()[:1]}
WIDTHS = {width: available()[:width] for width in range(1, min(2, len(available())) + 1)}


@pytest.fixture(scope="module", autouse=True)
def steady() -> Iterator[None]:
    """A machine that counts as at rest, whatever else it does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headway.live.rehearsal.disturbance", lambda *_: "")
        yield


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return zoo.build("squeezenet", image_size=64, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def intake(model: onnx.ModelProto, folder: Path) -> Intake:
    return take_in(model, WIDTHS, name="m/1", limits=FINE, cache=ProfileCache(folder))


def test_a_profile_describes_the_blocks(intake: Intake) -> None:
    profile, chain = intake.profile, intake.split
    assert not intake.cached
    assert len(chain.blocks) > 1
    assert profile.model == "m/1"
    assert (profile.machine, profile.runtime) == (machine(), runtime())
    assert profile.positions == chain.positions
    assert profile.widths == tuple(sorted(WIDTHS))
    assert [block.content_hash for block in profile.blocks] == [block.content_hash for block in chain.blocks]
    assert [block.operators for block in profile.blocks] == [block.ops for block in chain.blocks]
    assert [block.cut_bytes for block in profile.blocks] == [block.crossing_bytes for block in chain.blocks]
    assert profile.intake_s > 0.0


def test_every_block_was_measured_at_every_width_equally_often(intake: Intake) -> None:
    profile = intake.profile
    for width in WIDTHS:
        counts = {len(block.seconds[width].samples_s) for block in profile.blocks}
        assert counts == {len(profile.whole_seconds[width].samples_s)}
        assert counts.pop() >= 2
        assert all(seconds > 0.0 for seconds in profile.seconds(width))
        by_run = zip(*(block.seconds[width].samples_s for block in profile.blocks), strict=True)
        pairs = zip(map(sum, by_run), profile.whole_seconds[width].samples_s, strict=True)
        assert profile.boundary_share[width] == pytest.approx(median(c / w for c, w in pairs) - 1.0)


def test_inputs_are_made_up_by_the_seed(model: onnx.ModelProto, intake: Intake) -> None:
    again = take_in(model, ONE, limits=FINE)
    other = take_in(model, ONE, limits=FINE, seed=1)
    for name, array in intake.inputs.items():
        assert np.array_equal(array, again.inputs[name])
        assert not np.array_equal(array, other.inputs[name])
    assert again.profile.model == model.graph.name


def test_a_profile_is_measured_once(model: onnx.ModelProto, folder: Path, intake: Intake) -> None:
    again = take_in(model, ONE, name="m/1", limits=FINE, cache=ProfileCache(folder))
    assert again.cached
    assert again.profile == intake.profile
    assert again.split.positions == intake.split.positions


@pytest.mark.parametrize("change", [{"limits": BlockLimits()}, {"name": "other"}])
def test_what_was_measured_otherwise_is_measured_anew(
    model: onnx.ModelProto, folder: Path, intake: Intake, change: dict[str, Any]
) -> None:
    options = {"name": "m/1", "limits": FINE, **change}
    assert not take_in(model, ONE, cache=ProfileCache(folder), **options).cached


def rewrite(path: Path, **changes: object) -> None:
    data = json.loads(path.read_text())
    data["profile"].update(changes)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machine": "another one"}, "was profiled on another machine (another one); measured again"),
        ({"runtime": "onnxruntime 0.1"}, "was profiled with onnxruntime 0.1; measured again"),
        ({"unsteady": "it shook"}, "was profiled on a busy machine (it shook); measured again"),
    ],
)
def test_a_stale_profile_is_noticed_and_said(
    model: onnx.ModelProto, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    cache = ProfileCache(tmp_path)
    take_in(model, ONE, name="m", limits=FINE, cache=cache)
    (path,) = cache.folder.iterdir()
    rewrite(path, **changes)
    again = take_in(model, ONE, name="m", limits=FINE, cache=cache)
    assert not again.cached
    assert again.said == (f"m: {said}",)
    third = take_in(model, ONE, name="m", limits=FINE, cache=cache)
    assert third.cached
    assert third.said == ()


def test_a_busy_machine_is_noticed_by_lost_time_or_by_slow_runs() -> None:
    assert disturbance([1.0, 1.1, 1.2], [1.0, 1.0, 1.1], 6.3) == ""
    assert disturbance([1.0, 1.1, 1.2], [1.0, 1.0, 1.1], None) == ""
    lost = disturbance([2.0, 2.0], [1.0, 1.0], 4.5)
    assert lost == "other work had 25% of the processor's time"
    slow = disturbance([1.0, 1.0], [1.0, 1.5, 1.6], None)
    assert slow == "runs took 50% longer than the fastest of them"


def shares(*wanted: float) -> Any:
    """`measure` with these shares for the boundaries' cost, one after the other."""
    left = iter(wanted)

    def measured(*arguments: Any) -> rehearsal.Measurement:
        share = next(left)
        return replace(rehearsal.measure(*arguments), share=share, lowest_share=share)

    return measured


@pytest.mark.parametrize(("second", "fewer_win"), [(0.05, True), (0.4, False)])
def test_longer_blocks_are_tried_where_boundaries_cost_too_much(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, second: float, fewer_win: bool
) -> None:
    limits = BlockLimits(target_s=0.3e-3, longest_s=5e-3, overhead_share=0.1)
    monkeypatch.setattr(
        node_profile, "boundary_cost", lambda threads: BoundaryCost(1e-6, 1e-6, 0.0, 0.0, 0.0)
    )
    timed = node_profile.read_node_s

    def three_ms(*given: Any, **more: Any) -> list[float]:
        """Where blocks end shall not depend on who else uses the machine."""
        nodes = timed(*given, **more)
        return [3e-3 / len(nodes)] * len(nodes)

    monkeypatch.setattr(node_profile, "read_node_s", three_ms)
    monkeypatch.setattr(profiler, "measure", shares(0.0))
    usual = take_in(model, ONE, limits=limits)
    assert len(usual.split.blocks) > 2
    monkeypatch.setattr(profiler, "measure", shares(0.21, second))
    tried = take_in(model, ONE, limits=limits)
    assert tried.profile.boundary_share == {1: second if fewer_win else 0.21}
    assert (tried.profile.positions == ()) is fewer_win
    assert len(tried.profile.blocks) == len(tried.split.blocks)


def test_a_profile_of_other_blocks_is_not_used(model: onnx.ModelProto, tmp_path: Path) -> None:
    cache = ProfileCache(tmp_path)
    first = take_in(model, ONE, name="m", limits=FINE, cache=cache)
    (path,) = cache.folder.iterdir()
    blocks = json.loads(first.profile.to_json())["profile"]["blocks"]
    blocks[0]["operators"] = ["Other"]
    rewrite(path, blocks=blocks)
    assert not take_in(model, ONE, name="m", limits=FINE, cache=cache).cached
    rewrite(path, positions=[1])
    assert not take_in(model, ONE, name="m", limits=FINE, cache=cache).cached


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b'{"format": 1, "profile": {}}', b'{"format": 0}']
)
def test_a_corrupt_file_is_ignored_with_a_warning(tmp_path: Path, content: bytes) -> None:
    cache = ProfileCache(tmp_path)
    path = cache.path("m", ("id",))
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"the profile is ignored"):
        found = cache.find("m", ("id",))
    assert found.profile is None
    assert "could not be read; measured again" in found.reason


def test_a_file_that_cannot_be_opened_is_ignored_with_a_warning(tmp_path: Path) -> None:
    cache = ProfileCache(tmp_path)
    cache.path("m", ("id",)).mkdir(parents=True)
    with pytest.warns(UserWarning, match=r"the profile is ignored"):
        assert cache.find("m", ("id",)).profile is None


def test_a_folder_that_cannot_be_written_is_warned_of(tmp_path: Path, intake: Intake) -> None:
    (tmp_path / "profiles").write_text("a file")
    with pytest.warns(UserWarning, match=r"the profile is not kept"):
        ProfileCache(tmp_path).keep(intake.profile, ("id",))


def test_keeping_leaves_one_whole_file(tmp_path: Path, intake: Intake) -> None:
    cache = ProfileCache(tmp_path)
    for _ in range(2):
        cache.keep(intake.profile, ("id",))
    (path,) = cache.folder.iterdir()
    assert ModelProfile.from_json(path.read_text()) == intake.profile
    assert path == cache.path("m/1", ("id",))
    assert path.parent == cache.folder


def test_where_profiles_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder() == tmp_path / "a"
    assert ProfileCache().folder == tmp_path / "a" / "profiles"
    monkeypatch.delenv("HEADWAY_CACHE")
    assert cache_folder() == tmp_path / "b" / "headway"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(cache_module.Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "headway"


def looking_up() -> onnx.ModelProto:
    """A model whose integer input is a place in a table of one row."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["row"]), helper.make_node("Relu", ["row"], ["y"])],
        "looking up",
        [helper.make_tensor_value_info("index", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor("table", TensorProto.FLOAT, [1, 4], [1.0] * 4)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_given_inputs_are_used() -> None:
    sample = {"index": np.array([0])}
    assert take_in(looking_up(), ONE, sample=sample).inputs is sample
    with pytest.raises(HeadwayError, match="ONNX Runtime could not run it"):
        take_in(looking_up(), ONE, sample={"index": np.array([5])})


def test_a_model_of_one_block_says_why() -> None:
    profile = take_in(looking_up(), ONE).profile
    assert len(profile.blocks) == 1
    assert profile.positions == ()
    assert any("no longer than one block should" in note for note in profile.notes)


@pytest.mark.parametrize("size", ["open", "fixed"])
def test_a_model_that_loops_for_ever_is_refused_in_the_end(
    monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setattr("headway.models.runtime_session.TimeLimit.__init__.__defaults__", (0.2,))
    monkeypatch.setattr(rehearsal, "RUN_LIMIT_S", 0.2)
    with pytest.raises(HeadwayError, match=r"ran for more than 0\.2 s"):
        take_in(looping_for_ever(size == "fixed"), ONE)


def looping_for_ever(sized: bool) -> onnx.ModelProto:
    """It adds one for some years; with an output of open size it already runs to find that out."""
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    go_on, still = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go_on", "still"))
    before, after = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("a", "b"))
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_on"], ["still"]), helper.make_node("Add", ["a", "one"], ["b"])],
        "body",
        [number, go_on, before],
        [still, after],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["z"]),
            helper.make_node("Loop", ["often", "", "z"], ["y"], body=body),
        ],
        "for ever",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2] if sized else None)],
        [
            helper.make_tensor("one", TensorProto.FLOAT, [2], [1.0, 1.0]),
            helper.make_tensor("often", TensorProto.INT64, [], [10**15]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_blocks_carry_what_they_compute_and_move(intake: Intake, model: onnx.ModelProto) -> None:
    works = [block.work for block in intake.profile.blocks]
    assert len(works) > 1
    assert 2 * load_model(model).macs <= sum(work.flops for work in works if work)
    for work in works:
        assert work is not None
        assert work.kernels > 0
        assert sum(work.operator_shares.values()) == pytest.approx(1.0)
    assert all("convolution" in work.operator_shares for work in works[:-1] if work)
