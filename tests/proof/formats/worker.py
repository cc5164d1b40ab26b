"""A process that reads damaged files, so that no crash, hang or greed of one harms the campaign."""

import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.proof.campaign import Failed
from tests.proof.formats.check import Bounds, check, limit_address_space
from tests.proof.formats.corpus import KINDS
from tests.proof.formats.mutators import damaged
from tests.proof.formats.variants import broken

MOST_ADDRESSES = 8 << 30
"""Above what the process has. A file that takes more finds no memory."""
HANG_SECS = 300.0
"""For one file, whatever else the machine does. The bound of processor time is far lower, and the product waits less
for the process that reads ORC."""
READING, JUDGING, DONE, WRONG, BROKE = "reading", "judging", "done", "wrong", "broke"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was wrong with a file, which `damaged` makes again from kind and seed."""

    kind: str
    seed: str
    why: str

    def keep(self, folder: Path) -> Path:
        """Stores the file."""
        file = damaged(KINDS[self.kind], self.seed)
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / f"{self.seed.replace('/', '-')}-{file.path}"
        kept.write_bytes(file.body)
        return kept


class Worker:
    """Owns one process. `variant` and `secs` belong to each call, since starting a process takes a second."""

    def __init__(self) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()

    def begin(self, kind: str, seeds: Sequence[str], variant: str, secs: float) -> None:
        self._ours.send((kind, tuple(seeds), variant, secs))

    def next(self, hang_secs: float) -> tuple[str, Any]:
        """What it says of the file that it is at. Raises EOFError if its process has ended, TimeoutError if it
        hangs."""
        if not self._ours.poll(hang_secs):
            raise TimeoutError
        said: tuple[str, Any] = self._ours.recv()
        return said

    def end(self) -> int:
        """The exit code."""
        self._process.join(10.0)
        code = self._process.exitcode
        self.close()
        return code if code is not None else -signal.SIGKILL


def _work(theirs: Connection) -> None:
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        while True:
            kind, seeds, variant, secs = theirs.recv()
            # Anew for each round: Arrow's allocator keeps addresses, gigabytes of them after a hundred thousand files.
            limit_address_space(MOST_ADDRESSES)
            with broken(variant):
                for seed in seeds:
                    theirs.send((READING, seed))
                    theirs.send(_checked(theirs, kind, seed, Bounds(secs=secs)))


def _checked(theirs: Connection, kind: str, seed: str, bounds: Bounds) -> tuple[str, Any]:
    try:
        return DONE, check(kind, seed, bounds, lambda: theirs.send((JUDGING, seed)))
    except Failed as failed:
        return WRONG, failed.why
    except Exception as error:  # noqa: BLE001 - of the harness, and no finding
        return BROKE, f"{type(error).__name__}: {error}"
