"""What the proof shows while it runs: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from tests.proof.outcome import Outcome

LINE_EVERY_SECS = 30.0
"""On plain lines, how often a campaign says what it does."""


class View:
    """On stderr, so that stdout has the report alone. As a context manager it owns the terminal for its block."""

    def __init__(self, names: Sequence[str]) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._names = names
        self._ended: dict[str, str] = {}
        self._running = self._now = ""
        self._counts: Mapping[str, int] = {}
        self._began = self._line_ts = time.monotonic()
        self._live: Live | None = None

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

    def begin(self, name: str, minutes: float) -> None:
        self._running, self._now, self._counts = name, "starting", {}
        self._began = self._line_ts = time.monotonic()
        self._line(f"{name}: begins, for {minutes:.1f} minutes")

    def said(self, now: str, counts: Mapping[str, int]) -> None:
        first = any(counts.values()) and not any(self._counts.values())
        self._now, self._counts = now, counts
        if self._live is not None:
            self._live.update(self._render())
        elif first or time.monotonic() - self._line_ts >= LINE_EVERY_SECS:
            self._line_ts = time.monotonic()
            self._line("; ".join(filter(None, (f"{self._running}: {now}", _words(counts)))))

    def end(self, outcome: Outcome) -> None:
        self._ended[self._running] = outcome.said
        self._counts = outcome.counts
        self._line(
            "; ".join(filter(None, (f"{self._running}: {outcome.said} after {outcome.secs:.0f} s", outcome.counted)))
        )
        self._running = ""
        if self._live is not None:
            self._live.update(self._render())

    def _line(self, text: str) -> None:
        if self._live is None:
            self._console.print(escape(text), soft_wrap=True)

    def _render(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("campaign", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("", overflow="fold")
        for name in self._names:
            if name == self._running:
                secs = f"{time.monotonic() - self._began:.0f} s"
                table.add_row(escape(name), secs, escape(f"{_words(self._counts)}\n{self._now}".strip()))
            else:
                table.add_row(escape(name), self._ended.get(name, "-"), "")
        return table


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
