"""Names the files that a task was working on when an unexpected error occurred."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType

_NAMED = 3


@dataclass(frozen=True, slots=True)
class add_file_names:  # noqa: N801 - used as a function; a generator would take four times as long, for each file
    """Context manager: adds a note with the file names to any error except the `expected_errors`; the traceback ends
    with the note. An error that already has a note, from an inner context, keeps that one."""

    action: str
    paths: Callable[[], Iterable[str]]
    expected_errors: tuple[type[Exception], ...] = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not isinstance(error, Exception) or isinstance(error, self.expected_errors):
            return
        if not getattr(error, "__notes__", ()):
            error.add_note(f"while {self.action} {_named([*dict.fromkeys(self.paths())])}")


def _named(paths: list[str]) -> str:
    shown = ", ".join(paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} other files"
