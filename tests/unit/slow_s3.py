"""An S3 that takes each part of an upload as late as it may."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from blizzard.storage.base import ObjectWriter
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3_write import S3Writer


class WaitedFor(S3Writer):
    """Sends a part when the next one is due and not before, so that it holds as much as it ever may."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        self._due = threading.Event()
        super().__init__(NoUpload(self._due), put)  # type: ignore[arg-type]

    def _wait_for_part(self) -> None:
        self._due.set()
        super()._wait_for_part()
        self._due.clear()


@dataclass
class NoUpload:
    due: threading.Event

    def add_part(self, data: bytes) -> None:
        assert self.due.wait(60), len(data)

    def complete(self) -> None: ...


class SlowS3(MemoryStore):
    """Keeps nothing itself."""

    def __init__(self) -> None:
        super().__init__(time.time)

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        writer = WaitedFor(len)
        yield writer
        writer.finish()
