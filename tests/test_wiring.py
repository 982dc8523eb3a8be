"""Scenarios end to end, through the Python API."""

import warnings
from dataclasses import replace

import onnx
import pytest

import headway
from headway import wiring
from headway.models import at_width, merge
from headway.sim.speed import Stretch

CLOSED = {"process": "closed", "clients": 2, "think_time": "1 ms"}


def scenario(arrivals, **length):
    return headway.Scenario.from_mapping(
        {
            "name": "s",
            "hardware": "stream-hetero4",
            "warmup": "50 %",
            "tenants": [
                {"name": "a", "model": "kws_res8", "sla": {"isolated": 4.0}, "arrivals": arrivals},
                {"name": "b", "model": "kws_res8", "sla": {"isolated": 9.0}, "arrivals": arrivals},
            ],
        }
        | length
    )


@pytest.mark.parametrize(
    ("arrivals", "length"),
    [
        (CLOSED, {"requests": 100}),
        (CLOSED, {"duration": "50 ms"}),
        ({"process": "poisson", "rate": "500 /s"}, {"requests": 100}),
        ({"process": "poisson", "rate": "500 /s"}, {"duration": "100 ms"}),
    ],
)
def test_half_of_the_time_is_warm_up_whatever_ends_a_scenario(arrivals, length):
    result = headway.simulate(scenario(arrivals, **length), policy="fcfs")
    asked = len(result.log.where("arrive"))
    assert 0.35 * asked < result.summary.total.requests < 0.65 * asked


def test_the_number_of_requests_to_come_is_known_but_for_closed_loops():
    poisson = {"process": "poisson", "rate": "500 /s"}
    assert wiring.prepare(scenario(poisson, requests=100)).expected_requests == 100
    assert wiring.prepare(scenario(CLOSED, requests=100)).expected_requests == 100
    assert wiring.prepare(scenario(CLOSED, duration="1 s")).expected_requests is None
    timed = scenario(poisson, duration="1 s")
    expected = wiring.prepare(timed).expected_requests
    assert expected == len(headway.simulate(timed, policy="fcfs").log.where("arrive"))


def test_a_policy_that_fails_is_a_mistake_of_the_user_with_the_cause_behind_it():
    @headway.policy("test-wiring-fails")
    class Fails(headway.Policy):
        def decide(self, view):
            raise LookupError("lost")

    with pytest.raises(
        headway.HeadwayError, match=r"'test-wiring-fails' failed at .* LookupError: lost"
    ) as caught:
        headway.simulate(scenario(CLOSED, requests=10), policy="test-wiring-fails")
    assert isinstance(caught.value.__cause__.__cause__, LookupError)


def test_laxity_does_not_drop_what_one_uninterrupted_run_still_completes():
    # Alone in one run a model is faster than the sum of its layers by themselves, to which deadlines relate.
    cfg = scenario({"process": "poisson", "rate": "5 /s"}, requests=40)
    tight = cfg.with_overrides(
        {"tenants.a.sla.isolated": 0.8, "tenants.b.sla.isolated": 0.8, "noise.solo_std": 0}
    )
    results = headway.compare(tight, ["fcfs", "laxity"])
    assert results["fcfs"].summary.total.sla_satisfaction == 1.0
    assert results["laxity"].summary.total.sla_satisfaction == 1.0


@pytest.mark.parametrize("policies", ["fcfs", [], ()])
def test_policies_to_compare_are_a_list_with_something_in_it(policies):
    with pytest.raises(headway.HeadwayError, match="accepted: a list of names"):
        headway.compare(scenario(CLOSED, requests=10), policies)


def test_a_table_is_that_of_the_simulator_whatever_was_done_to_the_graph():
    device = headway.load_hardware("stream-hetero4")
    graph = headway.load_model("kws_res8")
    named = headway.build_table("kws_res8", "stream-hetero4")
    simulated = wiring.prepare(scenario(CLOSED, requests=1)).tables["kws_res8"]
    assert named.serial_s == simulated.serial_s
    assert named.blocks < len(graph.layers)
    for given in (graph, at_width(graph, device.operand_bytes), merge(at_width(graph, device.operand_bytes))):
        assert headway.build_table(given, device).serial_s == named.serial_s


def test_a_machine_that_stalls_or_was_recorded_to_be_slow_takes_longer():
    steady = scenario(CLOSED, requests=60, noise={"solo_std": 0.0})
    stalls = {"factor": 10, "lasts": "5 ms", "every": "6 ms"}
    ends_s = [
        wiring.simulate(prepared, "fcfs").end_s
        for prepared in (
            wiring.prepare(steady),
            wiring.prepare(scenario(CLOSED, requests=60, noise={"solo_std": 0.0, "stalls": stalls})),
            replace(wiring.prepare(steady), host=(Stretch(1.0, 3.0),)),
        )
    ]
    assert ends_s[0] < ends_s[1]
    assert ends_s[0] < ends_s[2] <= 3.0 * ends_s[0]


def test_lanes_have_no_computed_costs():
    with pytest.raises(headway.HeadwayError, match="measured, not computed"):
        headway.build_table("kws_res8", "cpu-lanes")


def test_models_of_the_zoo_are_loaded_by_name_and_take_options_as_dims():
    assert headway.load_model("kws_res8", dims={"batch": 2}).macs == 2 * headway.load_model("kws_res8").macs
    with pytest.raises(
        headway.HeadwayError, match="no such file, and no model of the zoo; the zoo has alexnet"
    ):
        headway.load_model("kws_res9")


@pytest.mark.parametrize("option", ["weights", "name"])
def test_what_is_no_option_of_a_zoo_model_is_refused_as_such(option):
    cfg = scenario(CLOSED, requests=1).with_overrides({"tenants.a.options": {option: 1}})
    with pytest.raises(
        headway.HeadwayError, match=f"no option named '{option}'; accepted: batch, seed, frames"
    ):
        headway.simulate(cfg)


def test_results_print_as_tables():
    compared = headway.compare(
        scenario({"process": "poisson", "rate": "500 /s"}, requests=20), ["fcfs", "edf"]
    )
    assert str(compared).splitlines()[2].split() == ["fcfs", "edf"]
    assert [
        line.split()[0] for line in str(compared["edf"]).splitlines() if line.startswith(("  a ", "  b "))
    ] == [
        "a",
        "b",
    ]


def test_what_is_assumed_about_a_model_file_is_said(tmp_path):
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["batch", 8]) for n in ("x", "y"))
    w = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [8, 8], [0.0] * 64)
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([product], "g", [x], [y], [w])), tmp_path / "m.onnx"
    )
    data = scenario(CLOSED, requests=4).with_overrides({"tenants.a.model": "m.onnx"}).to_mapping()

    with pytest.warns(UserWarning, match=r"tenants\[0\].model: symbolic dimensions chosen by default: batch"):
        headway.simulate(headway.Scenario.from_mapping(data, tmp_path))
    data["tenants"][0]["dims"] = {"batch": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        headway.simulate(headway.Scenario.from_mapping(data, tmp_path))
