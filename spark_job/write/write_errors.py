"""What the table's storage has against a data file: an error in a task, a value on its way to the driver, and there one
of Blizzard's errors again."""

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

_OF_STORAGE = (
    *(AccessDenied, BucketMissing, CredentialsRefused, KeyUnusable),
    *(StorageBroken, StorageError, StorageFull, StorageUnavailable),
)
_BY_NAME: Mapping[str, type[BlizzardError]] = {kind.__name__: kind for kind in _OF_STORAGE}


class CannotWriteError(Exception):
    """The table's storage refused a data file; no file that is read is at fault."""

    def __init__(self, error: BlizzardError) -> None:
        super().__init__(str(error))
        self.refusal = RefusedWrite.of(error)


@contextmanager
def writing() -> Iterator[None]:
    """Raises CannotWriteError for what the table's storage has against it."""
    try:
        yield
    except BlizzardError as error:
        raise CannotWriteError(error) from error


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """`kind` is the error's name, `said` all of its text."""

    kind: str
    said: str

    @classmethod
    def of(cls, error: BlizzardError) -> Self:
        kind = type(error)
        if kind.__name__ not in _BY_NAME:
            kind = StorageUnavailable if isinstance(error, RetryableError) else StorageError
        return cls(kind.__name__, str(error))

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self | None:
        """What `asdict` gave, after a journey as JSON."""
        return None if document is None else cls(document["kind"], document["said"])

    def error(self) -> BlizzardError:
        return _BY_NAME[self.kind](
            f"the table's storage took no rows: {self.said} Nothing was committed; no file of the source is at fault."
        )


def raise_refused(refusals: Iterable[RefusedWrite | None]) -> None:
    """The first that waiting does not cure; else the first, if there are any."""
    errors = [refusal.error() for refusal in refusals if refusal is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, RetryableError))
