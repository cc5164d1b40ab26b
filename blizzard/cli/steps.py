"""Shows how far a command is, on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Steps(Protocol):
    def __call__(self, step: str, done: int, total: int) -> None:
        """`total` 0: unknown."""


@contextmanager
def steps(*, visible: bool) -> Iterator[Steps]:
    """Nothing is shown unless standard error is a terminal, and `visible`."""
    if not (visible and sys.stderr.isatty()):
        yield lambda step, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(step: str, done: int, total: int) -> None:
            progress.update(task, description=step, completed=done, total=total or None)

        yield show
