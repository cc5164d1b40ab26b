"""Errors of the table's storage while tasks write data files. They are an exception in the task, a value in the task's
report, and one of Blizzard's errors on the driver."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    BucketMissing,
    CredentialsRefused,
    KeyUnusable,
    RetryableError,
    StorageBroken,
    StorageError,
    StorageFull,
    StorageUnavailable,
)

_STORAGE_ERRORS = (
    *(AccessDenied, BucketMissing, CredentialsRefused, KeyUnusable),
    *(StorageBroken, StorageError, StorageFull, StorageUnavailable),
)
_BY_NAME: Mapping[str, type[BlizzardError]] = {kind.__name__: kind for kind in _STORAGE_ERRORS}


class CannotWriteError(Exception):
    """The table's storage refused a data file. No file of the source is at fault."""

    def __init__(self, error: BlizzardError) -> None:
        super().__init__(str(error))
        self.refusal = RefusedWrite.of(error)


@contextmanager
def writing() -> Iterator[None]:
    """Turns errors of the table's storage into CannotWriteError."""
    try:
        yield
    except BlizzardError as error:
        raise CannotWriteError(error) from error


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """`kind` is the name of the error's class, `text` its text."""

    kind: str
    text: str

    @classmethod
    def of(cls, error: BlizzardError) -> Self:
        kind = type(error)
        if kind.__name__ not in _BY_NAME:
            kind = StorageUnavailable if isinstance(error, RetryableError) else StorageError
        return cls(kind.__name__, str(error))

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self | None:
        """The refusal from the result of `asdict`, also after a round trip through JSON."""
        return None if document is None else cls(document["kind"], document["text"])

    def error(self) -> BlizzardError:
        return _BY_NAME[self.kind](
            f"the table's storage refused the rows: {self.text} Nothing was committed; no file of the source is at "
            "fault."
        )


def raise_refused(refusals: Iterable[RefusedWrite | None]) -> None:
    """Raises the first permanent error, or else the first one; nothing if there is none."""
    errors = [refusal.error() for refusal in refusals if refusal is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, RetryableError))
