"""A reader of files that is made when there is something to read."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Generic, TypeVar

from blizzard.state.batch import PlannedFile
from spark_job.ports.reader import FileRows, Reader

R = TypeVar("R", bound=FileRows)


class DeferredReader(Generic[R]):
    """Implements `Reader`. A run that finds nothing new need not import what reads and writes files."""

    def __init__(self, make: Callable[[], Reader[R]]) -> None:
        self._make = make

    @cached_property
    def _reader(self) -> Reader[R]:
        return self._make()

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> R:
        return self._reader.read(files, sequence=sequence, replacing=replacing)
