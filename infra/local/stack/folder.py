"""The folder of a stack, which serves one stack at a time: a second one would delete the files of the first."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blizzard.errors import PermanentError
from infra.local.processes.checkout import CHECKOUT

FOLDER = CHECKOUT / "build" / "local-aws"
"""The default of `make local-aws`."""
ENDPOINTS = "endpoints.json"
"""In the folder of a running stack: where its server, its landing bucket and its configuration are."""


class FolderInUse(PermanentError):
    """Another process runs a stack in this folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock `folder` with a file next to it, until the block or the process ends. Raises FolderInUse."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip()
            raise FolderInUse(
                f"another stack is running in {folder}{f' (pid {pid})' if pid else ''}; "
                "stop it, or choose another folder with `--folder DIR`"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
