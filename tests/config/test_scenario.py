"""Scenarios: what a file means, each mistake with its line, and changed copies."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from headway.config import Scenario
from headway.config.arrivals import After, Closed, Mmpp, Periodic, Poisson, Uniform
from headway.config.priorities import DRAWS, DrawnPriority
from headway.config.traces import Trace
from headway.core.errors import HeadwayError

EXAMPLES = Path(__file__).parents[2] / "examples"
SCENARIOS = sorted(file for file in EXAMPLES.glob("*.yaml") if file.name != "serve.yaml")  # a server's

TEXT = """\
name: demo
seed: 7
hardware: stream-hetero4
duration: 2 s
warmup: 100 ms
policy: edf
contention: proportional
noise: {solo_std: 0.0}
tenants:
  - name: camera
    model: models/net.onnx
    dims: {batch: 1}
    sla: {deadline: 20 ms, percentile: 99.9}
    priority: 2
    weight: 1.5
    class: best-effort
    expires: deadline
    arrivals: {process: periodic, rate: 30 fps, jitter: 1 ms}
  - name: search
    model: bert_small
    options: {batch: 2, sequence_length: 64}
    sla: {isolated: 4.0}
    expires: 50 ms
    arrivals:
      process: mmpp
      rate: 50 /s
      mean_on: 100 ms
      mean_off: 300 ms
"""


def written(folder: Path, text: str = TEXT) -> Path:
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "net.onnx").write_bytes(b"")
    file = folder / "scenario.yaml"
    file.write_text(text)
    return file


def mapping(**changes: Any) -> dict[str, Any]:
    tenant = {
        "name": "only",
        "model": "resnet18",
        "sla": {"isolated": 4},
        "arrivals": {"process": "poisson", "rate": "50 /s"},
    }
    return {"name": "demo", "hardware": "moca8", "requests": 100, "tenants": [tenant]} | changes


def with_arrivals(**arrivals: Any) -> Any:
    base = mapping()
    base["tenants"][0]["arrivals"] = arrivals
    return Scenario.from_mapping(base).tenants[0].arrivals


def test_everything_that_a_file_says(tmp_path: Path) -> None:
    scenario = Scenario.load(written(tmp_path))
    assert (scenario.name, scenario.seed, scenario.policy) == ("demo", 7, "edf")
    assert (scenario.duration, scenario.requests) == (2.0, None)
    assert (scenario.contention, scenario.noise.solo_std) == ("proportional", 0.0)
    assert scenario.device().name == "stream-hetero4"

    camera, search = scenario.tenants
    assert scenario.model_path(camera) == tmp_path / "models" / "net.onnx"
    assert scenario.model_path(search) is None
    assert (camera.dims, search.options) == ({"batch": 1}, {"batch": 2, "sequence_length": 64})
    assert (camera.priority, camera.weight, camera.strict) == (2, 1.5, False)
    assert (camera.sla.percentile, search.sla.percentile) == (99.9, 99.0)
    assert camera.sla.relative_deadline_s(isolated_s=1.0) == 0.02
    assert search.sla.relative_deadline_s(isolated_s=0.003) == pytest.approx(0.012)
    assert camera.expires_after_s(relative_deadline_s=0.02) == 0.02
    assert search.expires_after_s(relative_deadline_s=0.012) == 0.05


def test_defaults() -> None:
    scenario = Scenario.from_mapping(mapping())
    assert (scenario.seed, scenario.policy, scenario.contention) == (0, "lucas", "max-min")
    assert scenario.noise.solo_std == 0.1
    (tenant,) = scenario.tenants
    assert (tenant.priority, tenant.weight, tenant.strict) == (0, 1.0, True)
    assert tenant.expires_after_s(1.0) is None


def test_arrival_processes() -> None:
    assert with_arrivals(process="poisson", rate="120 /min") == Poisson.model_construct(
        process="poisson", rate=2.0
    )
    assert isinstance(with_arrivals(process="uniform", rate="5 /s"), Uniform)
    bursts = with_arrivals(process="mmpp", rate="50 /s", mean_on="100 ms", mean_off="300 ms")
    assert isinstance(bursts, Mmpp)
    assert bursts.burst_ratio == 4
    assert bursts.on_share == pytest.approx(0.25)
    assert 0.25 * 4 * bursts.off_rate + 0.75 * bursts.off_rate == pytest.approx(50)
    frames = with_arrivals(process="periodic", period="20 ms", phase="5 ms")
    assert isinstance(frames, Periodic)
    assert (frames.period_s, frames.mean_rate, frames.phase) == (0.02, 50.0, 0.005)
    assert with_arrivals(process="periodic", rate="50 fps").period_s == 0.02
    clients = with_arrivals(process="closed", clients=3, think_time="0 s")
    assert isinstance(clients, Closed)
    assert (clients.clients, clients.think_time, clients.think) == (3, 0.0, "exponential")


@pytest.mark.parametrize(
    ("warmup", "length", "end_s"),
    [
        ("10 %", {"requests": 5}, None),
        ("10 %", {"duration": "2 s"}, 0.2),
        ("100 ms", {"requests": 5}, 0.1),
        ("0 s", {"duration": "2 s"}, 0.0),
        ("0 %", {"duration": "2 s"}, 0.0),
    ],
)
def test_warmup(warmup: str, length: dict[str, Any], end_s: float | None) -> None:
    base = mapping(warmup=warmup)
    del base["requests"]
    assert Scenario.from_mapping(base | length).warmup_end_s == (
        end_s if end_s is None else pytest.approx(end_s)
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed: 7", "sed: 7", "2: sed: unknown key (did you mean 'seed'?); accepted: name, seed, hardware"),
        ("seed: 7", "seed: -7", "2: seed: found -7; accepted: greater than or equal to 0"),
        ("seed: 7", "seed: 1.5", "2: seed: found 1.5; accepted: a valid integer"),
        ("seed: 7", "name: again", "2: name: key given twice, first on line 1"),
        (
            "stream-hetero4",
            "stream-hetero5",
            "3: hardware: no hardware preset named 'stream-hetero5' (did you mean",
        ),
        ("stream-hetero4", "gone.yaml", "3: hardware: {folder}/gone.yaml: No such file or directory"),
        ("stream-hetero4", "7", "3: hardware: found 7; accepted: a preset's name, a path or a description"),
        ("stream-hetero4", "{preset: 7}", "3: hardware.preset: found 7; accepted: a preset's name or a path"),
        ("stream-hetero4", "{preset: moca9}", "3: hardware.preset: no hardware preset named 'moca9'"),
        (
            "stream-hetero4",
            "{preset: moca8, dram: {bw: 1 B/s}}",
            "3: hardware.dram.bw: unknown key; accepted: bandwidth",
        ),
        (
            "stream-hetero4",
            "{preset: moca8, dram: {bandwidth: 0 B/s}}",
            "3: hardware.dram.bandwidth: found '0 B/s'",
        ),
        ("hardware: stream-hetero4\n", "", "1: hardware: missing, but required"),
        (
            "duration: 2 s",
            "duration: 2",
            '4: duration: found 2: a number without a unit; accepted: a time such as "20 ms"',
        ),
        ("duration: 2 s", "duration: 2 MiB", "4: duration: found '2 MiB': 'MiB' is no unit of a time"),
        (
            "duration: 2 s",
            "duration: 1000 h",
            "4: duration: about 2.88e+08 requests would arrive; at most 10000000",
        ),
        ("duration: 2 s", "duration: 50 ms", "5: warmup: must be shorter than duration"),
        (
            "duration: 2 s",
            "duration: 2 s\nrequests: 5",
            '1: found both; accepted: exactly one of duration ("2 s") and',
        ),
        ("duration: 2 s\n", "", "1: found neither; accepted: exactly one of duration"),
        (
            "duration: 2 s",
            "requests: 100000000",
            "4: requests: found 100000000; accepted: less than or equal to 10000000",
        ),
        (
            "warmup: 100 ms",
            "warmup: 0.1",
            "5: warmup: found 0.1: a number without a unit; accepted: a time such as",
        ),
        ("warmup: 100 ms", "warmup: 100 %", "5: warmup: found '100 %': must be at most 99 %"),
        ("policy: edf", "policy: [edf]", "6: policy: found ['edf']; accepted: text"),
        ("proportional", "unfair", "7: contention: found 'unfair'; accepted: 'max-min' or 'proportional'"),
        (
            "{solo_std: 0.0}",
            "{stalls: {factor: 3, lasts: 80 ms, every: 80 ms}}",
            "8: noise.stalls.every: found 0.08 s; accepted: more than lasts (0.08 s)",
        ),
        ("solo_std: 0.0", "solo_std: .nan", "8: noise.solo_std: found nan; accepted: a finite number"),
        (
            "solo_std: 0.0",
            "solo_std: -1",
            "8: noise.solo_std: found -1; accepted: greater than or equal to 0",
        ),
        (
            "name: search",
            "name: camera",
            "19: tenants[1].name: tenant name 'camera' is already taken by tenants[0]",
        ),
        (
            "name: search",
            "name: a/b",
            "19: tenants[1].name: found 'a/b'; accepted: text that matches pattern",
        ),
        ("models/net.onnx", "models/gone.onnx", "11: tenants[0].model: no file {folder}/models/gone.onnx"),
        (
            "dims: {batch: 1}",
            "dims: {batch: 0}",
            "12: tenants[0].dims.batch: found 0; accepted: greater than or equal to 1",
        ),
        ("dims: {batch: 1}", "options: {batch: 1}", "12: tenants[0].options: options are for zoo models"),
        (
            "options: {batch: 2, sequence_length: 64}",
            "dims: {batch: 2}",
            "21: tenants[1].dims: dims are for .onnx files",
        ),
        ("deadline: 20 ms", "deadline: 20", "13: tenants[0].sla.deadline: found 20: a number without a unit"),
        (
            "deadline: 20 ms",
            "deadline: 20 ms, isolated: 2",
            "13: tenants[0].sla: found both; accepted: exactly one of",
        ),
        ("deadline: 20 ms, ", "", "13: tenants[0].sla: found neither; accepted: exactly one of deadline"),
        ("isolated: 4.0", "isolated: 0", "22: tenants[1].sla.isolated: found 0; accepted: greater than 0"),
        (
            "percentile: 99.9",
            "percentile: 101",
            "13: tenants[0].sla.percentile: found 101; accepted: less than or equal to 100",
        ),
        ("priority: 2", "priority: high", "14: tenants[0].priority: found 'high'; accepted: a valid integer"),
        ("weight: 1.5", "weight: 0", "15: tenants[0].weight: found 0; accepted: greater than 0"),
        (
            "best-effort",
            "relaxed",
            "16: tenants[0].class: found 'relaxed'; accepted: 'strict' or 'best-effort'",
        ),
        (
            "expires: deadline",
            "expires: soon",
            "17: tenants[0].expires: found 'soon': accepted: a time such as",
        ),
        (
            "process: periodic, ",
            "",
            "18: tenants[0].arrivals.process: missing, but required; accepted: poisson, uniform",
        ),
        (
            "process: periodic",
            "process: steady",
            "18: tenants[0].arrivals.process: found 'steady'; accepted: poisson, uni",
        ),
        ("rate: 30 fps, ", "", "18: tenants[0].arrivals: found neither; accepted: exactly one of period"),
        (
            "jitter: 1 ms",
            "jitter: 20 ms",
            "18: tenants[0].arrivals.jitter: must be at most half the period, 0.0166667 s",
        ),
        ("rate: 50 /s", "rate: 0 /s", "26: tenants[1].arrivals.rate: found '0 /s': must be greater than 0"),
        (
            "rate: 50 /s",
            "rate: 10000000 /s",
            "26: tenants[1].arrivals.rate: found '10000000 /s': must be at most 1000000 /s",
        ),
        (
            "rate: 50 /s",
            "rate: 1 GHz",
            "26: tenants[1].arrivals.rate: found '1 GHz': 'GHz' is no unit of a rate",
        ),
        (
            "mean_off: 300 ms",
            "mean_of: 300 ms",
            "28: tenants[1].arrivals.mean_of: unknown key (did you mean 'mean_off'?)",
        ),
        (
            "mean_on: 100 ms\n      mean_off: 300 ms",
            "mean_on: 1 ns\n      mean_off: 1 ns",
            "27: tenants[1].arrivals.mean_on: mean",
        ),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    file = written(tmp_path, TEXT.replace(old, new, 1))
    with pytest.raises(HeadwayError) as error:
        Scenario.load(file)
    assert str(error.value).startswith(f"{file}:{message.replace('{folder}', str(tmp_path))}")


def test_no_tenants() -> None:
    with pytest.raises(
        HeadwayError, match=r"^scenario: tenants: found an empty list; accepted: at least one tenant$"
    ):
        Scenario.from_mapping(mapping(tenants=[]))


def test_counting_open_and_closed_arrivals_together_is_refused() -> None:
    base = mapping()
    closed = {"process": "closed", "clients": 2, "think_time": "1 ms"}
    base["tenants"].append(base["tenants"][0] | {"name": "other", "arrivals": closed})
    with pytest.raises(HeadwayError, match=r"^scenario: requests: .* give duration instead$"):
        Scenario.from_mapping(base)
    del base["requests"]
    assert Scenario.from_mapping(base | {"duration": "1 s"}).duration == 1.0


def test_hardware_from_a_file_beside_the_scenario(tmp_path: Path) -> None:
    description = Scenario.from_mapping(mapping()).hardware.to_mapping() | {"name": "mine"}
    (tmp_path / "hw.yaml").write_text(json.dumps(description))  # JSON is YAML
    scenario = Scenario.load(written(tmp_path, TEXT.replace("stream-hetero4", "hw.yaml")))
    assert scenario.device().name == "mine"
    assert scenario.hardware.cores == Scenario.from_mapping(mapping()).hardware.cores


def test_a_mistake_in_a_hardware_file_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "hw.yaml").write_text("name: mine\ncores: []\n")
    file = written(tmp_path, TEXT.replace("stream-hetero4", "hw.yaml"))
    with pytest.raises(HeadwayError) as error:
        Scenario.load(file)
    assert str(error.value).startswith(
        f"{file}:3: hardware: {tmp_path}/hw.yaml:1: dram: missing, but required"
    )


def test_hardware_in_place_and_a_changed_preset() -> None:
    inline = Scenario.from_mapping(mapping(hardware=Scenario.from_mapping(mapping()).hardware.to_mapping()))
    assert inline == Scenario.from_mapping(mapping())
    changed = Scenario.from_mapping(mapping(hardware={"preset": "moca8", "dram": {"bandwidth": "12 GB/s"}}))
    device, preset = changed.device(), inline.device()
    assert device.dram_bandwidth_bytes_s == 12e9
    assert device.dram_energy_pj_per_byte == preset.dram_energy_pj_per_byte
    assert device.cores == preset.cores


def test_written_out_it_loads_again(tmp_path: Path) -> None:
    scenario = Scenario.load(written(tmp_path))
    again = Scenario.from_mapping(json.loads(scenario.model_dump_json()), tmp_path)
    assert again == scenario
    assert again.model_dump_json() == scenario.model_dump_json()
    assert Scenario.from_mapping(scenario.to_mapping(), tmp_path) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario
    assert str(tmp_path) not in scenario.model_dump_json()


def test_where(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert Scenario.load(file).where("tenants", 1, "model") == f"{file}:20: tenants[1].model"


def test_changes(tmp_path: Path) -> None:
    scenario = Scenario.load(written(tmp_path))
    changed = scenario.with_overrides(
        {
            "seed": 3,
            "hardware.dram.bandwidth": "16 GB/s",
            "tenants.search.sla.isolated": 2,
            "tenants.0.arrivals": {"process": "poisson", "rate": "1 /s"},
            "duration": None,
            "requests": 10,
        }
    )
    assert (changed.seed, changed.duration, changed.requests) == (3, None, 10)
    assert changed.device().dram_bandwidth_bytes_s == 16e9
    assert changed.tenants[1].sla.isolated == 2
    assert isinstance(changed.tenants[0].arrivals, Poisson)
    assert changed.model_path(changed.tenants[0]) == tmp_path / "models" / "net.onnx"
    assert scenario.seed == 7, "the original stays"


def test_changed_hardware_comes_before_changes_to_it() -> None:
    changed = Scenario.from_mapping(mapping()).with_overrides(
        {"hardware.dram.bandwidth": "1 GB/s", "hardware": "planaria16"}
    )
    assert (changed.device().name, changed.device().dram_bandwidth_bytes_s) == ("planaria16", 1e9)


def test_a_tenant_can_be_taken_away(tmp_path: Path) -> None:
    changed = Scenario.load(written(tmp_path)).with_overrides({"tenants.camera": None})
    assert [tenant.name for tenant in changed.tenants] == ["search"]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("tenants.nobody.priority", 1, "no item 'nobody'; accepted: only, or a position below 1"),
        ("tenants.9.priority", 1, "no item '9'"),
        ("seed.high", 1, "'high' is asked of 0, which has no fields"),
        ("hardware.dram.bandwidth", 5, "hardware.dram.bandwidth: found 5: a number without a unit"),
        ("tenants.0.colour", "red", "tenants[0].colour: unknown key"),
        ("hardware", "moca9", "hardware: no hardware preset named 'moca9'"),
    ],
)
def test_changes_are_checked(place: str, value: Any, message: str) -> None:
    with pytest.raises(HeadwayError, match=re.escape(message)):
        Scenario.from_mapping(mapping()).with_overrides({place: value})


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.name)
def test_examples_load(file: Path) -> None:
    assert Scenario.load(file).name == file.stem


@pytest.mark.parametrize("model", ["net.csv", "net.yaml", "tables.m", "tables.m#Second"])
def test_a_tenant_may_bring_a_layer_table(model: str, tmp_path: Path) -> None:
    data = mapping()
    data["tenants"][0]["model"] = model
    scenario = Scenario.from_mapping(data, base_dir=tmp_path)
    (tenant,) = scenario.tenants

    assert tenant.is_file
    assert scenario.model_path(tenant) == tmp_path / model
    assert tenant.model_file(tmp_path) == tmp_path / model.partition("#")[0]


def test_a_layer_table_has_no_dimensions_to_size() -> None:
    data = mapping()
    data["tenants"][0] |= {"model": "net.csv", "dims": {"batch": 2}}
    with pytest.raises(HeadwayError, match="a layer table has none"):
        Scenario.from_mapping(data)


FRAMES = {"process": "periodic", "rate": "30 fps"}


def with_tenants(*arrivals: dict[str, Any], **changes: Any) -> Scenario:
    tenants = [
        {"name": f"t{number}", "model": "resnet18", "sla": {"isolated": 4}, "arrivals": process}
        for number, process in enumerate(arrivals)
    ]
    return Scenario.from_mapping(mapping(tenants=tenants, **changes))


def test_a_load_may_be_given_and_changed() -> None:
    scenario = with_tenants(FRAMES, load=0.7)
    assert scenario.offered_load == 0.7
    assert scenario.to_mapping()["load"] == 0.7
    assert scenario.with_overrides({"load": 1.2}).offered_load == 1.2
    assert scenario.with_overrides({"load": None}).offered_load is None
    with pytest.raises(HeadwayError, match=r"^scenario: load: closed loops take what they get"):
        with_tenants(FRAMES, {"process": "closed", "clients": 1, "think_time": "0 s"}, load=0.7, **LASTING)


LASTING = {"requests": None, "duration": "1 s"}


def test_cascades_lead_from_a_parent() -> None:
    scenario = with_tenants(FRAMES, {"process": "after", "parent": "t0", "probability": 0.5})
    child = scenario.tenants[1].arrivals
    assert isinstance(child, After)
    assert (child.parent, child.probability) == ("t0", 0.5)
    assert isinstance(scenario.arrivals_of(scenario.tenants[0]), Periodic)


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        (
            [{"process": "after", "parent": "to"}, FRAMES],
            r"tenants[0].arrivals.parent: no tenant named 'to'; accepted: t0",
        ),
        ([{"process": "after", "parent": "t0"}], "tenants[0].arrivals.parent: goes in a circle: t0 after t0"),
        (
            [{"process": "after", "parent": "t1"}, {"process": "after", "parent": "t0"}],
            "tenants[0].arrivals.parent: goes in a circle: t0 after t1 after t0",
        ),
        (
            [{"process": "after", "parent": "t1", "probability": 1.5}, FRAMES],
            "probability: found 1.5; accepted:",
        ),
        ([{"process": "after"}], "tenants[0].arrivals.parent: missing, but required"),
        (
            [{"process": "trace", "file": "a.csv", "format": "azure"}],
            "tenants[0].arrivals.format: found 'azure'; accepted: 'azure-llm', 'mooncake'",
        ),
        (
            [{"process": "trace", "file": "a.csv", "format": "mooncake", "rows": {"function": ["f"]}}],
            "tenants[0].arrivals.rows.function: rows of mooncake have none; accepted: input, output",
        ),
        (
            [{"process": "moca-streams", "share": 0}],
            "tenants[0].arrivals.share: found 0; accepted: greater than 0",
        ),
    ],
)
def test_mistakes_in_new_arrivals(arrivals: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(HeadwayError) as error:
        with_tenants(*arrivals)
    assert message in str(error.value)


def test_streams_need_a_tenant_that_has_them() -> None:
    scenario = with_tenants({"process": "moca-streams"}, streams={"cap": 1.42, "step": "0 s"})
    assert scenario.streams is not None
    assert scenario.streams.cap == 1.42
    with pytest.raises(HeadwayError, match=r"^scenario: streams: no tenant has arrivals of the process moca"):
        with_tenants(FRAMES, streams={"cap": 1.42})


def test_a_trace_is_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    text = TEXT.replace(
        "{process: periodic, rate: 30 fps, jitter: 1 ms}", "{process: trace, file: t.csv, format: mooncake}"
    )
    file = written(tmp_path, text)
    with pytest.raises(
        HeadwayError, match=r"scenario\.yaml:18: tenants\[0\]\.arrivals\.file: no file .*t\.csv"
    ):
        Scenario.load(file)
    (tmp_path / "t.csv").write_text("")
    scenario = Scenario.load(file)
    process = scenario.arrivals_of(scenario.tenants[0])
    assert isinstance(process, Trace)
    assert process.file == str(tmp_path / "t.csv")
    moved = scenario.to_mapping(tmp_path / "deeper")
    assert moved["tenants"][0]["arrivals"]["file"] == str(tmp_path / "t.csv")


def test_priorities_may_be_drawn() -> None:
    base = mapping()
    base["tenants"][0]["priority"] = {"draw": "prema"}
    drawn = Scenario.from_mapping(base).tenants[0].priority
    assert isinstance(drawn, DrawnPriority)
    assert drawn.classes.mean == pytest.approx(13 / 3)
    assert sum(DRAWS["moca"].weights) == 108
    for wrong, message in (
        ({"draw": "dice"}, "accepted: 'prema' or 'moca'"),
        (-1, "greater than or equal to 0"),
    ):
        base["tenants"][0]["priority"] = wrong
        with pytest.raises(HeadwayError, match=rf"tenants\[0\]\.priority.*: found .*{message}"):
            Scenario.from_mapping(base)


def test_a_star_is_every_item() -> None:
    scenario = with_tenants(FRAMES, FRAMES, FRAMES).with_overrides(
        {"tenants.*.priority": 2, "tenants.t1.weight": 3.0}
    )
    assert [(tenant.priority, tenant.weight) for tenant in scenario.tenants] == [(2, 1.0), (2, 3.0), (2, 1.0)]
    with pytest.raises(HeadwayError, match="found an empty list"):
        scenario.with_overrides({"tenants.*": None})
