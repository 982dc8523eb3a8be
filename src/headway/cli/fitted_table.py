"""A table for a terminal that leaves out its least important columns where it is too narrow for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

_BETWEEN: Final = 3
"""Characters between two columns, and at the edges together one less."""

_LEAST_NAME: Final = 4


@dataclass
class Column:
    """Its header, and when it goes: those with the highest `rank` first, those of rank 0 never."""

    name: str
    rank: int = 0
    is_text: bool = False
    cells: list[Text] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Of header and cells in characters as a terminal shows them."""
        from rich.cells import cell_len

        return max([cell_len(self.name), *(cell.cell_len for cell in self.cells)])


class FittedTable:
    """A renderable of rich. Columns stay whole or are left out; only the first one's texts may be cut."""

    def __init__(self, *columns: Column) -> None:
        self._columns = columns

    def add_row(self, *cells: str | Text) -> None:
        """A cell for each column; texts are shown as they are, without markup."""
        from rich.text import Text

        for column, cell in zip(self._columns, cells, strict=True):
            column.cells.append(Text(cell) if isinstance(cell, str) else cell)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self.fitting(options.max_width)
        others = sum(column.width + _BETWEEN for column in columns[1:])
        yield self._table(columns, max(_LEAST_NAME, options.max_width - others - _BETWEEN + 1))

    def fitting(self, width: int) -> Sequence[Column]:
        """The columns that fit in so many characters, in their order."""
        shown = list(self._columns)
        while sum(column.width + _BETWEEN for column in shown) - 1 > width:
            last = max(shown, key=lambda column: column.rank)
            if not last.rank:
                break
            shown.remove(last)
        return shown

    def _table(self, columns: Sequence[Column], first_width: int) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            justify: Literal["left", "right"] = "left" if column.is_text else "right"
            width = min(column.width, first_width) if column is columns[0] else column.width
            table.add_column(column.name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*row)
        return table
