"""The demo's output: a live table on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text


@dataclass(slots=True)
class Figures:
    """What the view shows."""

    seen: int = 0
    pending: int = 0
    committed_files: int = 0
    committed_rows: int = 0
    dead_files: int = 0
    rows_per_sec: float | None = None
    """Of the last commit; None while no batch is in progress."""
    sequence: int | None = None
    watermarks: Mapping[str, str] = field(default_factory=dict)


class View:
    """A context manager. It controls the terminal within its block."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._live: Live | None = None
        self._figures = Figures()
        self._last_line = ""

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(self._render(), console=self._console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
            self._live.stop()

    def print(self, text: str) -> None:
        """Print a line; on a terminal, above the live table."""
        self._console.print(escape(text))

    def update(self, figures: Figures) -> None:
        self._figures = figures
        if self._live is not None:
            self._live.update(self._render())
            return
        line = _line(figures)
        if line != self._last_line:
            self._console.print(line)
            self._last_line = line

    def _render(self) -> Group:
        figures = self._figures
        table = Table(box=None, pad_edge=False)
        for name in ("files seen", "pending", "committed", "dead-lettered", "rows", "rows/s", "sequence"):
            table.add_column(name, justify="right")
        table.add_row(
            f"{figures.seen:,}",
            f"{figures.pending:,}",
            f"{figures.committed_files:,}",
            f"{figures.dead_files:,}",
            f"{figures.committed_rows:,}",
            "-" if figures.rows_per_sec is None else f"{figures.rows_per_sec:,.0f}",
            "-" if figures.sequence is None else str(figures.sequence),
        )
        marks = Table(box=None, pad_edge=False)
        marks.add_column("partition")
        marks.add_column("watermark")
        for partition, name in sorted(figures.watermarks.items()):
            marks.add_row(escape(partition), escape(name))
        return Group(Text(), table, Text(), marks)


def _line(figures: Figures) -> str:
    return (
        f"seen {figures.seen}, pending {figures.pending}, committed {figures.committed_files} files "
        f"{figures.committed_rows} rows, dead-lettered {figures.dead_files} files, "
        f"watermarks {len(figures.watermarks)} partitions"
    )
