"""Blocks of a model run one after the other and give what the whole model gives."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from headway.core.errors import HeadwayError
from headway.models import prepared as prepared_module
from headway.models import zoo
from headway.models.boundary_cost import BoundaryCost
from headway.models.chain import SplitModel
from headway.models.even import BlockLimits
from headway.models.node_times import estimated_node_s, node_s_from_blocks, profiled_node_s
from headway.models.partition import parts_of
from headway.models.prepared import prepare
from headway.models.recomposition import recompose
from headway.models.split import resplit, split
from headway.models.takeovers import sums_of, takeovers

# pytest's importlib mode does not let tests import their neighbours.
_SPEC = importlib.util.spec_from_file_location(
    "cuttable_graphs", Path(__file__).with_name("cuttable_graphs.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
cuttable = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(cuttable)

CHEAP = BoundaryCost(fixed_s=1e-6, tensor_s=0.0, byte_s=0.0, copy_byte_s=0.0, fetch_byte_s=0.0)
NOT_TO_THE_BIT = {
    # Cutting the original separates what ONNX Runtime would fuse, or compute in another precision or layout.
    ("half_precision", False),
    ("convolutions_in_a_blocked_layout", False),
}


@pytest.mark.parametrize("optimise", [True, False], ids=["optimised", "original"])
@pytest.mark.parametrize("name", list(cuttable.GRAPHS))
def test_every_cut_gives_what_the_whole_model_gives(name: str, optimise: bool) -> None:
    prepared = prepare(cuttable.GRAPHS[name](), optimise=optimise)
    assert prepared.optimised is optimise
    assert len(prepared.cuts) == max(0, len(prepared.graph) - 1)
    inputs = prepared.sample()
    positions = [cut.position for cut in prepared.cuts]
    for cuts in (*([position] for position in positions), positions):
        chain = split(prepared, cuts)
        assert len(chain.blocks) == len(cuts) + 1
        outcome = recompose(chain, inputs)
        assert outcome.equal, (cuts, outcome)
        if (name, optimise) not in NOT_TO_THE_BIT:
            assert outcome.bit_equal, (cuts, outcome)
        assert list(chain.run(inputs)) == list(prepared.graph.outputs)


@pytest.mark.parametrize(
    ("name", "options"), [("kws_res8", {"batch": 2}), ("squeezenet", {"image_size": 64})]
)
def test_zoo_models_cut_everywhere_are_equal_to_the_bit(name: str, options: dict[str, int]) -> None:
    prepared = prepare(zoo.build(name, **options))
    chain = split(prepared, [cut.position for cut in prepared.cuts])
    assert len(chain.blocks) > 10
    assert recompose(chain, threads=2).bit_equal


def test_sums_between_blocks_are_made_in_place_and_requests_do_not_mix() -> None:
    prepared = prepare(zoo.build("resnet18", image_size=32))
    sums = sums_of(prepared.graph)
    legal = {cut.position for cut in prepared.cuts}
    # Before each sum and behind it, so that what it adds comes from another block and its result leaves.
    chain = split(prepared, sorted(legal & {at for each in sums for at in (each.place, each.place + 1)}))
    first, second = prepared.sample(1), prepared.sample(2)
    taken = chain.plan.taken_over
    assert len(taken) == len(sums)
    offsets = {slot.name: slot.offset for slot in chain.plan.slots}
    assert all(offsets[name] == offsets[before] for name, before in taken.items())
    wholes = [split(prepared, ()).run(inputs) for inputs in (first, second)]
    sessions = chain.open()
    one, other = chain.bind(first), chain.bind(second)
    for index in range(len(chain.blocks)):
        sessions.run_block(index, one)
        sessions.run_block(index, other)
    for buffers, whole in zip((one, other), wholes, strict=True):
        made = chain.finish(buffers)
        assert all(np.array_equal(made[name], whole[name]) for name in whole)


def test_a_summand_that_is_read_later_keeps_its_memory() -> None:
    prepared = prepare(zoo.build("resnet18", image_size=32))
    sums = sums_of(prepared.graph)
    everywhere = [cut.position for cut in prepared.cuts]
    graph = replace(prepared.graph, reads=(*prepared.graph.reads[:-1], frozenset({sums[0].summand})))
    parts = parts_of(graph, everywhere)
    assert sums[0].result in takeovers(prepared.graph, parts_of(prepared.graph, everywhere), prepared.types)
    assert sums[0].result not in takeovers(graph, parts, prepared.types)


def test_named_sizes_are_fixed_and_their_boundaries_bound() -> None:
    free = prepare(cuttable.sizes_computed_from_sizes(), optimise=False)
    fixed = prepare(cuttable.sizes_computed_from_sizes(), dims={"batch": 4}, optimise=False)
    assert not free.types["r"].bindable
    assert fixed.types["r"].shape == (4, 6)
    chain = split(fixed, [1])
    assert chain.run({"x": np.ones((4, 6), dtype=np.float32)})["y"].shape == (8, 3)
    with pytest.raises(HeadwayError, match=r"\[2, 6\]; accepted: \[4, 6\]"):
        chain.bind({"x": np.ones((2, 6), dtype=np.float32)})
    with pytest.raises(HeadwayError, match="no symbolic dimension 'sequence'"):
        prepare(cuttable.sizes_computed_from_sizes(), dims={"sequence": 4})


@pytest.mark.parametrize("optimise", [True, False], ids=["optimised", "original"])
@pytest.mark.parametrize(("size", "open_sizes"), [(4, False), (5, True)])
def test_sizes_stay_open_where_a_branch_not_taken_forbids_to_fix_them(
    size: int, open_sizes: bool, optimise: bool
) -> None:
    inputs = {"x": np.ones((1, size), dtype=np.float32), "c": np.array(True)}
    model = cuttable.branches_for_different_sizes()
    prepared = prepare(model, dims={"n": size}, optimise=optimise, sample=inputs)
    assert any("sizes stay open" in note for note in prepared.notes) is open_sizes
    assert recompose(split(prepared, [1, 2]), inputs).bit_equal


def test_operator_without_a_kernel_is_refused_with_its_domain() -> None:
    unknown = cuttable.model(
        [cuttable.node("Relu", ["x"], ["a"]), cuttable.node("Inverse2", ["a"], ["y"], domain="my_ops")],
        [cuttable.info("x", [2, 2])],
        [cuttable.info("y", [2, 2])],
        domains=[("my_ops", 1)],
    )
    for optimise in (True, False):
        with pytest.raises(HeadwayError, match=r"my_ops.*Inverse2|Inverse2.*my_ops"):
            split(unknown, optimise=optimise)


def test_operator_without_a_kernel_for_its_types_is_named() -> None:
    integers = cuttable.model(
        [cuttable.node("Abs", ["x"], ["a"]), cuttable.node("Gelu", ["a"], ["y"])],
        [cuttable.info("x", [2], TensorProto.DOUBLE)],
        [cuttable.info("y", [2], TensorProto.DOUBLE)],
        opset=20,
    )
    integers.graph.node[1].op_type = "Erf"
    with pytest.raises(HeadwayError, match="Erf"):
        split(integers)


def test_positions_that_are_no_cuts_are_refused() -> None:
    prepared = prepare(cuttable.chain_of(3))
    for cuts in ([0], [3], [-1]):
        with pytest.raises(HeadwayError, match="no cut is possible"):
            split(prepared, cuts)
    with pytest.raises(HeadwayError, match="increasing"):
        split(prepared, [2, 1])


def test_cuts_lie_before_a_change_of_shape_which_copies_nothing_there() -> None:
    """After it ONNX Runtime would copy the tensor into the boundary's buffer."""
    shapes = cuttable.model(
        [
            cuttable.node("Relu", ["x"], ["a"]),
            cuttable.node("Reshape", ["a", "flat"], ["b"]),
            cuttable.node("Sigmoid", ["b"], ["y"]),
        ],
        [cuttable.info("x", [4, 64])],
        [cuttable.info("y", [256])],
        [numpy_helper.from_array(np.array([256]), "flat")],
    )
    prepared = prepare(shapes)
    assert [node.op_type for node in prepared.graph.nodes] == ["Relu", "Reshape", "Sigmoid"]
    copying = BoundaryCost(fixed_s=1e-6, tensor_s=0.0, byte_s=0.0, copy_byte_s=1e-9, fetch_byte_s=0.0)
    limits = BlockLimits(target_s=1e-3, longest_s=1.5e-3, overhead_share=1.0)
    for node_s in ((1e-3, 1e-9, 1e-3), (1e-3, 0.0, 1e-3)):
        assert split(prepared, node_s=node_s, limits=limits, cost=copying).positions == (1,)


def test_model_without_weights_cannot_be_split() -> None:
    with pytest.raises(HeadwayError, match="external data is absent"):
        split(zoo.build("kws_res8", weights=False))


@pytest.mark.parametrize("optimise", [True, False])
def test_external_data_at_an_offset_is_found(tmp_path: Path, optimise: bool) -> None:
    path = tmp_path / "m.onnx"
    model = cuttable.wide_products(3, 64)
    expected = split(model, cuts=[2], optimise=optimise).run({"t0": np.ones((8, 64), dtype=np.float32)})
    (tmp_path / "weights").mkdir()
    onnx.save_model(model, path, save_as_external_data=True, location="weights/w.bin", size_threshold=0)
    offsets = [
        entry.value
        for tensor in onnx.load(path, load_external_data=False).graph.initializer
        for entry in tensor.external_data
        if entry.key == "offset"
    ]
    assert len(set(offsets)) == 3
    before = path.read_bytes()
    chain = split(path, cuts=[2], optimise=optimise)
    found = chain.run({"t0": np.ones((8, 64), dtype=np.float32)})
    assert np.array_equal(found["t3"], expected["t3"])
    assert path.read_bytes() == before


def test_model_in_memory_is_left_as_it_was() -> None:
    model = cuttable.two_nodes_of_one_name()
    before = model.SerializeToString(deterministic=True)
    split(model, cuts=[1])
    split(model, cuts=[1], optimise=False)
    assert model.SerializeToString(deterministic=True) == before


def test_optimised_graph_that_cannot_be_cut_gives_way_to_the_original(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ordered_graph = prepared_module.ordered_graph

    def refuse_blocked(model: onnx.ModelProto, where: str) -> Any:
        if any(node.domain == "com.microsoft.nchwc" for node in model.graph.node):
            raise HeadwayError("the blocked layout is not understood")
        return ordered_graph(model, where)

    monkeypatch.setattr(prepared_module, "ordered_graph", refuse_blocked)
    prepared = prepare(cuttable.convolutions_in_a_blocked_layout())
    assert not prepared.optimised
    chain = split(prepared, [3])
    assert any("blocked layout is not understood" in note for note in chain.notes)
    assert recompose(chain).equal


def test_packed_weights_that_cannot_be_read_again_give_way_to_plain_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # ONNX Runtime 1.32 writes such files for some QLinearConv: a packed part of no bytes is then "past the
    # end".
    read_optimised = prepared_module._read_optimised

    def refuse_packed(path: Path, *others: Any) -> Any:
        if b"prepacked_0" in path.read_bytes():
            raise HeadwayError("unexpected end of file")
        return read_optimised(path, *others)

    packed = prepare(cuttable.wide_products(2, 64))
    assert b"prepacked_0" in (packed.workspace.folder / "optimised.onnx").read_bytes()
    monkeypatch.setattr(prepared_module, "_read_optimised", refuse_packed)
    prepared = prepare(cuttable.wide_products(2, 64))
    assert prepared.optimised
    assert any("each session copies them" in note for note in prepared.notes)
    assert recompose(split(prepared, [1, 2])).bit_equal


def test_blocks_are_even_by_estimate_where_made_up_inputs_do_not_run() -> None:
    lengths = cuttable.model(
        [cuttable.node("Reshape", ["x", "shape"], ["a"]), cuttable.node("Relu", ["a"], ["y"])],
        [cuttable.info("x", [6]), cuttable.info("shape", [2], TensorProto.INT64)],
        [cuttable.info("y", None)],
    )
    chain = split(lengths)
    assert any("made-up inputs do not run" in note for note in chain.notes)
    assert all(seconds > 0 for seconds in chain.node_s)
    good = {"x": np.ones(6, dtype=np.float32), "shape": np.array([2, 3])}
    assert chain.run(good)["y"].shape == (2, 3)
    assert not any("made-up" in note for note in split(lengths, sample=good).notes)
    with pytest.raises(HeadwayError, match="could not run"):
        split(lengths, sample={**good, "shape": np.array([5, 5])})


def test_random_operators_are_not_compared_and_named() -> None:
    dice = cuttable.model(
        [
            cuttable.node("RandomNormalLike", ["x"], ["r"], name="dice"),
            cuttable.node("Add", ["x", "r"], ["y"]),
        ],
        [cuttable.info("x", [1, 4])],
        [cuttable.info("y", [1, 4])],
    )
    chain = split(dice, cuts=[1])
    outcome = recompose(chain)
    assert not outcome.equal
    assert "dice" in outcome.skipped
    assert chain.run({"x": np.ones((1, 4), dtype=np.float32)})["y"].shape == (1, 4)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_draws_random_numbers_only_in_training(training: bool) -> None:
    nodes = [cuttable.node("Relu", ["x"], ["a"]), cuttable.node("Dropout", ["a", "ratio", "mode"], ["y"])]
    weights = [
        numpy_helper.from_array(np.float32(0.5), "ratio"),
        numpy_helper.from_array(np.array(training), "mode"),
    ]
    model = cuttable.model(nodes, [cuttable.info("x", [1, 64])], [cuttable.info("y", [1, 64])], weights)
    outcome = recompose(split(model, cuts=[1], optimise=False))
    assert bool(outcome.skipped) is training
    assert outcome.bit_equal is not training


def test_recomposition_notices_a_wrong_chain() -> None:
    right = split(cuttable.chain_of(3), cuts=[1])
    other = split(
        cuttable.model(
            [cuttable.node("Tanh", ["t0"], ["a"]), cuttable.node("Neg", ["a"], ["t3"])],
            [cuttable.info("t0", [1, 4])],
            [cuttable.info("t3", [1, 4])],
        ),
        cuts=[1],
    )
    wrong = SplitModel(**{**other.__dict__, "whole": right.whole})
    outcome = recompose(wrong)
    assert not outcome.equal
    assert outcome.worst_output == "t3"
    assert outcome.worst_error > 1


def test_even_split_follows_the_times_of_nodes() -> None:
    prepared = prepare(cuttable.chain_of(12), optimise=False)
    chain = split(prepared, node_s=[1e-3] * 12, cost=CHEAP)
    assert chain.positions == (2, 4, 6, 8, 10)
    assert chain.expected_s == pytest.approx([2e-3] * 6)
    again = resplit(prepared, chain, [4e-3, 4e-3, *([1e-3] * 4)], cost=CHEAP)
    assert again.positions == (1, 2, 3, 4, 8)
    assert recompose(again).bit_equal
    with pytest.raises(HeadwayError, match="7 times"):
        resplit(prepared, chain, [1e-3] * 7)
    with pytest.raises(HeadwayError, match="given cuts"):
        resplit(prepared, split(prepared, [1]), [1e-3] * 2)


def test_model_shorter_than_a_block_stays_whole_and_says_so() -> None:
    chain = split(cuttable.chain_of(3))
    assert len(chain.blocks) == 1
    assert "no longer than one block" in chain.reason
    assert recompose(chain).bit_equal


def test_even_split_of_a_real_model_keeps_to_its_limits() -> None:
    prepared = prepare(zoo.build("squeezenet"))
    node_s = estimated_node_s(prepared)
    limits = BlockLimits(target_s=1e-3, longest_s=2e-3)
    chain = split(prepared, node_s=node_s, limits=limits, cost=CHEAP)
    assert len(chain.blocks) > 3
    for block, seconds in zip(chain.blocks, chain.expected_s, strict=True):
        assert seconds <= 2e-3 or block.end_node - block.first_node == 1


def test_nodes_are_profiled_one_by_one() -> None:
    prepared = prepare(cuttable.wide_products(3, 256), optimise=False)
    seconds = profiled_node_s(prepared, runs=2)
    assert len(seconds) == len(prepared.graph) == 6
    assert all(second > 0 for second in seconds[::2]), "a product takes microseconds, so it cannot be zero"


def test_estimate_needs_no_run_and_is_the_same_every_time() -> None:
    prepared = prepare(zoo.build("kws_res8"))
    first = estimated_node_s(prepared)
    assert first == estimated_node_s(prepare(zoo.build("kws_res8")))
    assert all(seconds > 0 for seconds in first)
    assert sum(estimated_node_s(prepared, threads=2)) < sum(first)


def test_times_of_blocks_are_spread_over_their_nodes_in_proportion() -> None:
    assert node_s_from_blocks([1.0, 3.0, 0.0, 0.0], [2], [8.0, 4.0]) == (2.0, 6.0, 2.0, 2.0)


def test_importing_the_splitter_loads_no_runtime() -> None:
    code = "import sys, headway.models.split; print('onnxruntime' in sys.modules, 'onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
