"""An HTML page of tables and curves, for evaluations that need no more. It works without a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headway.record.page import render_page
from headway.record.results import write_text


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves over common places on the horizontal axis, by name; None is a gap. With `bars` they are bars
    over places that are words. What exceeds `most` runs off the plot, so that the rest can be read."""

    x_title: str
    y_title: str
    x: Sequence[float | str]
    series: Mapping[str, Sequence[float | None]]
    bars: bool = False
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A table, a plot or both, with a sentence on them. The first column of a table names its rows."""

    title: str
    text: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    plot: Plot | None = None


def write_tables_page(
    path: Path, name: str, lead: str, sections: Sequence[Section], about: Mapping[str, str]
) -> None:
    """Write the page. `about` has lines on how the results were made."""
    plots = [None if section.plot is None else asdict(section.plot) for section in sections]
    page = render_page("tables", plots, {}, name=name, lead=lead, sections=sections, about=about)
    write_text(path, page)
