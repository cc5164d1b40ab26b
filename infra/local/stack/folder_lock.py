"""One stack for a folder at a time: a second one would delete what the first one works with."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blizzard.errors import PermanentError


class FolderTaken(PermanentError):
    """Another process has a stack in this folder."""


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold `folder`, by a lock on a file beside it; the end of the process gives it back. Raises FolderTaken."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip()
            raise FolderTaken(
                f"another one is running{f' (pid {pid})' if pid else ''}; end it, or give this one `--folder DIR`"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
