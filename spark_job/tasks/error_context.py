"""Names the files that a task was working on when an unexpected error occurred."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

_NAMED = 3


@contextmanager
def add_file_names(
    action: str, paths: Callable[[], Iterable[str]], *, expected_errors: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Adds a note with the file names to any error except the `expected_errors`; the traceback ends with the note. An
    error that already has a note, from an inner context, keeps that one."""
    try:
        yield
    except expected_errors:
        raise
    except Exception as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(f"while {action} {_named([*dict.fromkeys(paths())])}")
        raise


def _named(paths: list[str]) -> str:
    shown = ", ".join(paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} other files"
