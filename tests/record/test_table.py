from __future__ import annotations

import io
from types import ModuleType

import pytest
from rich.console import Console

from headway.core.protocols import LogRow
from headway.record.figures import joules, number, percent, scaled
from headway.record.metrics import Summary, summarise
from headway.record.table import comparison, tenants


def shown(width: int, *summaries: Summary) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    if len(summaries) == 1:
        console.print(tenants(summaries[0]))
    else:
        console.print(comparison({summary.policy: summary for summary in summaries}))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line(text: str, label: str) -> list[str]:
    return next(row for row in text.splitlines() if row.strip().startswith(label)).split()


@pytest.fixture(scope="module")
def pair(synthetic: ModuleType) -> tuple[Summary, Summary]:
    return (
        summarise(synthetic.synthetic_log("fcfs", load=1.1, drop=False)),
        summarise(synthetic.synthetic_log("lucas:lbl", load=0.6)),
    )


@pytest.mark.parametrize("width", [80, 100, 120])
def test_tables_fit_the_terminal(pair: tuple[Summary, Summary], width: int) -> None:
    for text in (shown(width, pair[0]), shown(width, *pair), shown(width, *pair, *pair)):
        assert all(len(row) <= width for row in text.splitlines())
        assert "…" not in text


def test_tenants_and_their_total(pair: tuple[Summary, Summary]) -> None:
    text = shown(120, pair[1])
    camera = pair[1].tenants["camera"]

    assert line(text, "camera")[1] == str(camera.requests)
    assert number(camera.p99_ms) in line(text, "camera")
    assert line(text, "all")[1] == str(pair[1].total.requests)
    assert "p50 ms" in text
    assert "p50 ms" not in shown(80, pair[1])


def test_the_best_is_marked(pair: tuple[Summary, Summary]) -> None:
    text = shown(120, *pair)

    assert line(text, "SLA satisfaction")[-1] == "*"
    assert line(text, "late")[-1] == "*"
    assert text.count("SLA satisfaction") == 1


def test_equal_policies_are_not_marked(pair: tuple[Summary, Summary]) -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(comparison({"a": pair[0], "b": pair[0]}))
    assert isinstance(console.file, io.StringIO)
    assert " *" not in console.file.getvalue().replace("* best", "")


def test_policies_that_do_not_fit_go_into_another_table(pair: tuple[Summary, Summary]) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison({f"policy {index}": pair[index % 2] for index in range(8)}))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.count("SLA satisfaction") > 1
    assert all(f"policy {index}" in text for index in range(8))


def test_names_are_not_markup(synthetic: ModuleType) -> None:
    metadata = synthetic.description("[red]edf", tenants=("[bold]a", "b/[x]"))
    summary = summarise(synthetic.log_of(synthetic.rows_of(metadata), metadata))

    text = shown(100, summary)

    assert all(name in text for name in ("[red]edf", "[bold]a", "b/[x]"))


def test_nothing_to_show(synthetic: ModuleType) -> None:
    text = shown(
        80, summarise(synthetic.log_of([LogRow(1.0, "end")], {"policy": "edf", "tenants": [{"name": "a"}]}))
    )
    assert line(text, "a")[1:4] == ["0", "–", "–"]


def test_figures_as_text() -> None:
    assert [number(value) for value in (None, float("inf"), 0.0, 0.01234, 1.5, 1234.5, 1e6)] == [
        "–", "∞", "0", "0.0123", "1.50", "1,234", "1,000,000",
    ]  # fmt: skip
    assert [scaled(value, "B") for value in (None, 12.0, 1.5e9, 2e16)] == [
        "–",
        "12.0 B",
        "1.50 GB",
        "20.0 PB",
    ]
    assert [joules(value) for value in (0.0015, 2.0, 12_345.0)] == ["1.50 µJ", "2.00 mJ", "12.3 J"]
    assert [percent(value) for value in (None, 0.5, 0.9996, 1.0)] == ["–", "50.0 %", "99.9 %", "100.0 %"]


def test_traffic_and_energy_are_left_out_where_they_are_not_measured(synthetic: ModuleType) -> None:
    metadata = synthetic.description()
    del metadata["device"]["dram_bandwidth_bytes_s"]
    summary = summarise(synthetic.log_of(synthetic.rows_of(metadata), metadata))

    alone, beside = shown(120, summary), shown(120, summary, summary)
    assert "not measured on lanes" in alone
    assert "0 B" not in alone + beside
    assert "energy" not in beside
