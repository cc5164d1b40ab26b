"""Progress of a run: one updating line on a terminal, otherwise one line per step."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status


class Progress:
    """Writes to stderr, so that stdout has only the report."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("starting")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def report_progress(self, text: str) -> None:
        if self._status is not None:
            self._status.update(escape(text))
        else:
            print(f"{time.monotonic() - self._started:7.1f} s  {text}", file=sys.stderr, flush=True)
