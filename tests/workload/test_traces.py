"""Traces: each format from a small file, rows chosen, times spread and scaled, mistakes with their place."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from tenant_loads import load

from headway.config.traces import Trace
from headway.core.errors import HeadwayError
from headway.workload.rates import request_rates
from headway.workload.sources import ScenarioSource
from headway.workload.streams import Streams
from headway.workload.traces import rows_taken, trace_rate, trace_times

LLM = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:13.9799600,110,27
"""
MOONCAKE = """\
timestamp_ms,input_length,output_length
0,6758,500
0,7322,490
3000,700,3
"""
ENDS = """\
app,func,end_timestamp,duration
7b2c,e3cd,0.5,0.5
1573,337c,57.5,57.0
7b2c,e3ff,2.0,0
7b2c,e3cd,1.5,0.25
"""
MINUTES = """\
HashOwner,HashApp,HashFunction,Trigger,1,2,3
o1,a1,f11,queue,2,0,1
o1,a1,f12,http,0,0,4
o2,a2,f2,timer,0,3,0
"""
DURATIONS = """\
HashOwner,HashApp,HashFunction,Average,Count,Minimum,Maximum
o1,a1,f11,100.0,9,1,200
o1,a1,f12,2000,9,1,3000
"""
BATCH = MINUTES.replace("2,0,1", "32,64,32").replace("0,0,4", "8,8,16").replace("0,3,0", "1,1,1")


def trace(folder: Path, text: str, kind: str, **changes: Any) -> Trace:
    file = folder / changes.pop("file", "invocations.csv")
    file.write_text(text)
    fields = {"process": "trace", "file": str(file), "format": kind, **changes}
    return TypeAdapter(Trace).validate_python(fields)


def times(process: Trace, seed: int = 0, tenant: str = "a") -> list[float]:
    found: list[float] = trace_times(process, seed, tenant).tolist()
    return found


def test_azure_llm(tmp_path: Path) -> None:
    assert times(trace(tmp_path, LLM, "azure-llm")) == pytest.approx([0.0, 0.052, 10.0])
    some = trace(tmp_path, LLM, "azure-llm", rows={"input": {"below": 4000}, "output": {"at_least": 9}})
    assert times(some) == pytest.approx([10.0])
    zoned = LLM.replace("00,", "00+00:00,")
    assert times(trace(tmp_path, zoned, "azure-llm")) == pytest.approx([0.0, 0.052, 10.0])


def test_mooncake(tmp_path: Path) -> None:
    assert times(trace(tmp_path, MOONCAKE, "mooncake")) == [0.0, 0.0, 3.0]
    short = trace(tmp_path, MOONCAKE, "mooncake", rows={"input": {"at_least": 700, "below": 7000}})
    assert times(short) == [0.0, 3.0]
    spread = trace(tmp_path, MOONCAKE, "mooncake", spread="3 s")
    found = times(spread)
    assert found == sorted(found)
    assert 0.0 < found[0] < found[1] < 3.0 < found[2] < 6.0
    assert found == times(spread)
    assert found != times(spread, seed=1)
    assert found != times(spread, tenant="b")


def test_azure_functions_2021_arrives_a_duration_before_its_end(tmp_path: Path) -> None:
    # Arrivals at 0, 0.5, 2.0 and 1.25: in no order of the file, and one without a duration.
    assert times(trace(tmp_path, ENDS, "azure-functions-2021")) == pytest.approx([0.0, 0.5, 1.25, 2.0])

    def rows(**conditions: Any) -> list[float]:
        return times(trace(tmp_path, ENDS, "azure-functions-2021", rows=conditions))

    assert rows(function=["e3cd"]) == pytest.approx([0.0, 1.25])
    assert rows(function=["e3"]) == pytest.approx([0.0, 1.25, 2.0])
    assert rows(app=["1573"]) == pytest.approx([0.5])
    assert rows(duration={"at_least": "250 ms", "below": "1 min"}) == pytest.approx([0.0, 0.5, 1.25])


def test_azure_functions_2019_are_spread_within_their_minute(tmp_path: Path) -> None:
    found = times(trace(tmp_path, MINUTES, "azure-functions-2019"))
    assert Counter(int(time // 60) for time in found) == {0: 2, 1: 3, 2: 5}
    at_once = trace(tmp_path, MINUTES, "azure-functions-2019", spread="0 s")
    assert times(at_once) == [0.0] * 2 + [60.0] * 3 + [120.0] * 5
    assert trace_rate(at_once) == pytest.approx(10 / 180)


def test_durations_of_functions_stand_in_the_file_beside(tmp_path: Path) -> None:
    process = trace(
        tmp_path, MINUTES, "azure-functions-2019", spread="0 s", rows={"duration": {"below": "1 s"}}
    )
    with pytest.raises(HeadwayError, match=r"durations\.csv: No such file"):
        times(process)
    (tmp_path / "durations.csv").write_text(DURATIONS)
    assert times(process) == [0.0, 0.0, 120.0]
    # Function f2 has no duration there: no condition on it takes its rows, and that is said.
    rest = process.model_copy(update={"rows": type(process.rows)(duration={"at_least": "1 s"})})
    assert times(rest) == [120.0] * 4
    (said,) = rows_taken([process, rest])
    assert said.endswith("invocations.csv: 3 of 10 requests are no tenant's")
    official = "invocations_per_function_md.anon.d01.csv"
    (tmp_path / "function_durations_percentiles.anon.d01.csv").write_text(DURATIONS)
    assert (
        times(
            trace(
                tmp_path, MINUTES, "azure-functions-2019", file=official, spread="0 s", rows={"duration": {}}
            )
        )
        == [0.0, 0.0] + [120.0] * 5
    )


def test_jobs_of_in_vitro(tmp_path: Path) -> None:
    (tmp_path / "load_batch.csv").write_text(BATCH)
    process = trace(
        tmp_path,
        MINUTES,
        "invitro-gpu",
        file="load_invocations.csv",
        spread="0 s",
        rows={"batch": {"at_least": 16}},
    )
    assert times(process) == [0.0] * 2 + [120.0] * 5
    (tmp_path / "load_batch.csv").write_text(BATCH.replace("1,1,1", "1,16,1"))
    assert times(process) == [0.0] * 2 + [60.0] * 3 + [120.0] * 5, "a changed file is read anew"


def test_start_and_speed(tmp_path: Path) -> None:
    process = trace(tmp_path, MINUTES, "azure-functions-2019", spread="0 s", start="1 min", speed=60.0)
    assert times(process) == [0.0] * 3 + [1.0] * 5
    assert trace_rate(process) == pytest.approx(8 / 120 * 60)
    assert times(process.faster(2.0)) == [0.0] * 3 + [0.5] * 5


def test_a_trace_is_a_tenants_arrivals(tmp_path: Path) -> None:
    process = trace(tmp_path, ENDS, "azure-functions-2021").model_dump(mode="json", exclude_none=True)
    loads = [load("a", **process), load("b", process="periodic", period="1 s")]
    origin = ScenarioSource(loads, seed=0, duration_s=2.5)
    found = [(each.request.tenant, each.request.arrival_s) for each in origin.first()]
    assert found == [("a", 0.0), ("b", 0.0), ("a", 0.5), ("b", 1.0), ("a", 1.25), ("a", 2.0), ("b", 2.0)]
    assert ScenarioSource(loads[:1], seed=0, count=100).expected() == 4, "a trace ends"
    assert request_rates(loads, Streams()) == pytest.approx({"a": 2.0, "b": 1.0})


def test_rows_of_no_tenant_and_of_several_are_told(tmp_path: Path) -> None:
    low = trace(tmp_path, LLM, "azure-llm", rows={"input": {"below": 4000}})
    lowest = trace(tmp_path, LLM, "azure-llm", rows={"input": {"below": 1000}})
    assert [each.split(": ")[1] for each in rows_taken([low, lowest])] == [
        "1 of 3 requests are no tenant's",
        "1 of 3 requests are several tenants'",
    ]
    assert rows_taken([trace(tmp_path, LLM, "azure-llm")]) == []


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            "azure-llm",
            LLM.replace("3180", "many"),
            ":3: column ContextTokens: found 'many'; accepted: a number",
        ),
        (
            "azure-llm",
            LLM.replace("3180", "31.5"),
            ":3: column ContextTokens: found '31.5'; accepted: a whole",
        ),
        (
            "azure-llm",
            LLM.replace("3180", "-1"),
            ":3: column ContextTokens: found '-1'; accepted: a number from 0",
        ),
        (
            "azure-llm",
            LLM.replace("2023-11-16 18:17:13", "noon"),
            ":4: column TIMESTAMP: found 'noon.9799600'",
        ),
        (
            "azure-llm",
            LLM.replace("3.9799600,110", "3+01:00,110"),
            ":4: column TIMESTAMP: found '2023-11-16 18:17:1",
        ),
        (
            "azure-llm",
            LLM.replace("TIMESTAMP", "time"),
            ":1: no column TIMESTAMP; found time, ContextTokens, Gene",
        ),
        (
            "azure-llm",
            LLM.replace("4808,10", "4808"),
            ":2: found 2 fields; accepted: 3, as many as in the header",
        ),
        ("azure-llm", "", ": the file is empty; accepted: a header"),
        ("azure-llm", LLM.splitlines()[0], ": no request in it"),
        (
            "mooncake",
            MOONCAKE.replace("3000", "nan"),
            ":4: column timestamp_ms: found 'nan'; accepted: a number",
        ),
        (
            "azure-functions-2021",
            ENDS.replace(",57.0", ",-1"),
            ":3: column duration: found '-1'; accepted: a numb",
        ),
        (
            "azure-functions-2019",
            MINUTES.replace("0,3,0", "0,x,0"),
            ":4: column 2: found 'x'; accepted: a number",
        ),
        (
            "azure-functions-2019",
            MINUTES.replace("Trigger,1,2", "Trigger,1,7"),
            ":1: found column '7'; accepted: 2",
        ),
        (
            "azure-functions-2019",
            MINUTES.replace("HashApp", "App"),
            ":1: no column HashApp; accepted: HashOwner",
        ),
    ],
)
def test_mistakes_in_files(tmp_path: Path, kind: str, text: str, message: str) -> None:
    process = trace(tmp_path, text, kind)
    with pytest.raises(HeadwayError) as error:
        times(process)
    assert str(error.value).startswith(f"{process.file}{message}")


def test_conditions_that_take_nothing(tmp_path: Path) -> None:
    process = trace(tmp_path, ENDS, "azure-functions-2021", rows={"function": ["e4"]})
    with pytest.raises(
        HeadwayError, match="no function whose name is or begins with 'e4'; it has 3: e3cd, 337c"
    ):
        times(process)
    none = trace(tmp_path, LLM, "azure-llm", rows={"input": {"at_least": 5000}})
    with pytest.raises(HeadwayError, match="none of its 3 rows is taken by these conditions"):
        times(none)
    one_time = trace(tmp_path, MOONCAKE.replace("3000,", "0,"), "mooncake")
    with pytest.raises(HeadwayError, match="rows are all at one time, and have no rate"):
        trace_rate(one_time)
    odd = trace(tmp_path, MINUTES, "azure-functions-2019", file="counts.csv", rows={"duration": {}})
    with pytest.raises(HeadwayError, match=re.escape("accepted: a name with 'invocations' in it")):
        times(odd)


def test_a_whole_name_is_preferred_to_longer_ones(tmp_path: Path) -> None:
    text = MINUTES.replace("f12", "gpt2-large").replace("f11", "gpt2")
    process = trace(tmp_path, text, "azure-functions-2019", spread="0 s", rows={"function": ["gpt2"]})
    assert times(process) == [0.0, 0.0, 120.0]


def test_times_are_sorted_after_spreading(tmp_path: Path) -> None:
    rows = "".join(f"{number * 10},1,1\n" for number in range(500))
    process = trace(tmp_path, "timestamp_ms,input_length,output_length\n" + rows, "mooncake", spread="1 s")
    found = np.array(times(process))
    assert (np.diff(found) >= 0).all()
    assert len(found) == 500
