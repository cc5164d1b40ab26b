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
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Done(MofNCompleteColumn):
        """Nothing of a step that does not count."""

        def render(self, task: Task) -> Text:
            return super().render(task) if task.completed or task.total else Text()

    columns = TextColumn("{task.description}"), BarColumn(), Done(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        shown = ""

        def show(step: str, done: int, total: int) -> None:
            nonlocal shown
            if step != shown:  # a total stays with its task, and the next step may have none
                for task in progress.task_ids:
                    progress.remove_task(task)
                shown = step
                progress.add_task(step, total=None)
            progress.update(progress.task_ids[0], completed=done, total=total or None)

        yield show
