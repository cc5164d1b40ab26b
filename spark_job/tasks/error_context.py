"""Whose lines a task was at work on when something broke that nobody foresaw."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

_NAMED = 3


@contextmanager
def naming(
    doing: str, paths: Callable[[], Iterable[str]], *, foreseen: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Notes the files with any other error than a `foreseen` one, for the end of its traceback. The innermost knows
    best: an error that has a note keeps it."""
    try:
        yield
    except foreseen:
        raise
    except Exception as error:
        if not getattr(error, "__notes__", ()):
            error.add_note(f"while {doing} {_named([*dict.fromkeys(paths())])}")
        raise


def _named(paths: list[str]) -> str:
    shown = ", ".join(paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} other files"
