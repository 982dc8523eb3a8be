"""What a run achieved, as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headway.record.figures import (
    BOUND,
    GAP,
    NOTHING,
    comparison_lines,
    joules,
    modes,
    number,
    percent,
    points,
    satisfaction,
    scaled,
)
from headway.record.metrics import Scores, Summary
from headway.record.twin import TwinReport

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

_LABEL_WIDTH: Final = 24
_POLICY_WIDTH: Final = 15  # of a satisfaction with its interval and mark


def tenants(summary: Summary) -> Fitted:
    """One policy: its tenants and the total, and a few lines on the machine. Print it with rich."""

    def parts(width: int) -> Iterator[RenderableType]:
        yield tenant_table(summary, narrow=width < 100)
        yield _machine(summary)

    return Fitted(parts)


def comparison(summaries: Mapping[str, Summary]) -> Fitted:
    """Several policies side by side, in several tables where they do not fit. Print it with rich."""

    def parts(width: int) -> Iterator[RenderableType]:
        names = tuple(summaries)
        column = max(_POLICY_WIDTH, *(len(name) + 2 for name in names))
        room = max(1, (width - _LABEL_WIDTH - 2) // column)
        for first in range(0, len(names), room):
            yield comparison_table(summaries, names[first : first + room])

    return Fitted(parts)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Something that rich can print and that looks different at different widths."""

    parts: Callable[[int], Iterable[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        yield from self.parts(options.max_width)


def tenant_table(summary: Summary, narrow: bool = False) -> Table:
    """A row per tenant and one for all. `narrow` leaves out p50, p95 and ANTT, for 80 columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title=Text(f"{summary.policy}: SLA by tenant"),
        caption="± is half a 95 % interval; percentiles and ANTT are over completed requests; requests of the"
        " warm-up are left out",
        title_justify="left",
        caption_justify="left",
        show_footer=True,
    )
    everyone = summary.total
    table.add_column("tenant", "all", overflow="ellipsis", max_width=24, min_width=8, no_wrap=True)
    columns = [*_COUNTS]
    if everyone.rejected:
        columns.append(("rejected", lambda scores: f"{scores.rejected:,}"))
    if everyone.failed + everyone.cancelled + everyone.unfinished:
        columns.append(("other", lambda scores: f"{scores.failed + scores.cancelled + scores.unfinished:,}"))
    columns += [column for column in _LATENCIES if not narrow or column[0] in ("done", "p99 ms")]
    for heading, text in columns:
        table.add_column(heading, text(everyone), justify="right", no_wrap=True)
    for name, scores in summary.tenants.items():
        style = "red" if scores.meets_percentile is False else None
        table.add_row(Text(name), *(text(scores) for _, text in columns), style=style)
    return table


def comparison_table(summaries: Mapping[str, Summary], names: tuple[str, ...]) -> Table:
    """A row per metric and a column for each of those policies; `*` marks the best of all `summaries`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title="Comparison",
        caption="* best; ± is half a 95 % interval; percentiles and ANTT are over completed requests;"
        " requests of the warm-up are left out",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("", overflow="ellipsis", max_width=_LABEL_WIDTH, no_wrap=True)
    for name in names:
        table.add_column(Text(name), justify="right", no_wrap=True)
    names_of_tenants = list(
        dict.fromkeys(tenant for summary in summaries.values() for tenant in summary.tenants)
    )
    lines = comparison_lines(names_of_tenants)
    for line in lines:
        texts = [line.text(summaries[name]) for name in names]
        values = [line.value(summary) for summary in summaries.values()]
        if line.label in _ONLY_IF_ANY and not any(values):
            continue
        if line.label in (BOUND, GAP) and all(value is None for value in values):
            continue
        best = line.best(summaries)
        cells = [
            Text(f"{text} *", style="bold green") if name in best else Text(f"{text}  ")
            for name, text in zip(names, texts, strict=True)
        ]
        table.add_row(Text(line.label), *cells)
    return table


def _machine(summary: Summary) -> RenderableType:
    from rich.padding import Padding
    from rich.text import Text

    total = summary.total
    lines = [
        f"STP {number(total.stp_eyerman)} (Eyerman), {number(total.stp_inferences_s)} inferences/s;"
        f" fairness {number(total.fairness)}; preemptions {total.preemptions:,}",
        "DRAM traffic and energy are not measured on lanes"
        if total.dram_bytes is None
        else f"DRAM {scaled(total.dram_bytes, 'B')}, {percent(summary.dram_utilisation)} of its bandwidth;"
        f" energy {joules(total.energy_mj)}",
        f"cores busy {percent(summary.core_utilisation)}: "
        + ", ".join(f"{core.name} {percent(core.utilisation)}" for core in summary.cores),
        f"blocks run {modes(summary)}",
    ]
    if summary.sla_bound is not None:
        lines.insert(
            0,
            f"no policy could have more than {percent(summary.sla_bound)} on time (clairvoyant bound);"
            f" gap {points(summary.sla_gap)}",
        )
    return Padding(Text("\n".join(lines)), (0, 0, 1, 2))


def _met(scores: Scores) -> str:
    return NOTHING if scores.meets_percentile is None else "yes" if scores.meets_percentile else "no"


_ONLY_IF_ANY: Final = frozenset(
    {"rejected", "failed, cancelled", "unfinished", "preemptions"}
    | {"DRAM traffic", "energy", "DRAM utilisation"}
    | {f"blocks {name}" for name in ("serial", "fused", "pipeline", "split")}
)
_COUNTS: Final[tuple[tuple[str, Callable[[Scores], str]], ...]] = (
    ("requests", lambda scores: f"{scores.requests:,}"),
    ("SLA", satisfaction),
    ("met", _met),
    ("late", lambda scores: f"{scores.late:,}"),
    ("dropped", lambda scores: f"{scores.dropped:,}"),
)
_LATENCIES: Final[tuple[tuple[str, Callable[[Scores], str]], ...]] = (
    ("done", lambda scores: f"{scores.completed:,}"),
    ("p50 ms", lambda scores: number(scores.p50_ms)),
    ("p95 ms", lambda scores: number(scores.p95_ms)),
    ("p99 ms", lambda scores: number(scores.p99_ms)),
    ("ANTT", lambda scores: number(scores.antt)),
)


def twin(report: TwinReport) -> Fitted:
    """A prediction beside live repeats, and how the host's speed moved. Print it with rich."""

    def parts(width: int) -> Iterator[RenderableType]:
        yield _twin_tenants(report)
        yield _twin_blocks(report)
        yield "\n".join(
            f"repeat {number}: block times over their profile were {low:.2f} to {high:.2f},"
            f" {middle:.2f} at the median of its seconds"
            for number, (low, middle, high) in enumerate(report.drift, 1)
        )

    return Fitted(parts)


def _twin_tenants(report: TwinReport) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title=Text(f"{report.policy}: predicted and measured"),
        caption="measured: mean of the repeats; repeats: 95th percentile of the difference between two of"
        " them; error: |predicted - measured|; beyond: error that the repeats do not account for. Of SLA in"
        " percentage points, of latencies relative to measured",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("tenant", overflow="fold")
    for name in ("figure", "predicted", "measured", "repeats", "error", "beyond"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    for row in report.tenants:
        for figure, pair, shown in (
            ("SLA", row.sla, percent),
            ("p50", row.p50_ms, _milliseconds),
            ("p99", row.p99_ms, _milliseconds),
        ):
            known = [pair.repeat_difference, pair.error, pair.beyond]
            table.add_row(
                row.tenant if figure == "SLA" else "",
                figure,
                shown(pair.predicted),
                shown(pair.measured),
                *(NOTHING if value is None else f"{100 * value:.1f} %" for value in known),
            )
    return table


def _twin_blocks(report: TwinReport) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        title=Text("Blocks on one lane, mean ms of a class"),
        title_justify="left",
    )
    table.add_column("model", overflow="fold")
    for name in ("class", "profiled", "predicted", "measured"):
        table.add_column(name, justify="left" if name == "class" else "right")
    for row in report.blocks:
        table.add_row(
            row.model, row.kind, *map(_milliseconds, (row.profiled_ms, row.predicted_ms, row.measured_ms))
        )
    return table


def _milliseconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g} ms"
