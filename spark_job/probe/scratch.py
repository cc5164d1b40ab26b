"""A folder of one probe below a table, beside the state, and what is tried in it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from blizzard.errors import AccessDenied, AlreadyExists, CredentialsRefused
from blizzard.storage.base import ObjectStore
from spark_job.probe.checks import error_text

FOLDER = "_blizzard/_probe/"
RACERS = 8


@dataclass
class Scratch:
    """`folder` is relative to the table, ends in `/`, and no other probe has it."""

    store: ObjectStore
    folder: str
    left_behind: list[str] = field(default_factory=list)
    """Once the block has ended: the objects that could not be deleted."""

    @property
    def numbered_key(self) -> str:
        """A key as segments of the pending manifest have it, to which the same statement of the bucket's policy
        applies."""
        return f"{self.folder}pending/{0:020d}.json"


@contextmanager
def scratch_folder(store: ObjectStore, probe_id: str) -> Iterator[Scratch]:
    """Deletes at the end of the block whatever is in it."""
    scratch = Scratch(store, f"{FOLDER}{probe_id}/")
    try:
        yield scratch
    finally:
        scratch.left_behind += _cleared(store, scratch.folder)


def _cleared(store: ObjectStore, folder: str) -> list[str]:
    try:
        store.delete([found.key for found in store.list(folder)])
        return [f"{store.uri}{found.key}" for found in store.list(folder)]
    except Exception as error:  # noqa: BLE001 - in a `finally`: it must not replace what the block raised
        return [f"{store.uri}{folder}: {error_text(error)}"]


def create_twice(scratch: Scratch) -> bool:
    """Whether the second of two conditional creates of one key is refused."""
    key = f"{scratch.folder}twice"
    scratch.store.create(key, _unique())
    return not _created(scratch.store, key)


def winners_of_race(scratch: Scratch) -> int:
    """How many of RACERS threads are told that they have created the same object."""
    key = f"{scratch.folder}race"
    with ThreadPoolExecutor(RACERS) as pool:
        return sum(pool.map(lambda _: _created(scratch.store, key), range(RACERS)))


def numbers_are_fenced(scratch: Scratch) -> bool:
    """Whether a numbered object can be created, and not be overwritten by a PUT without a condition."""
    scratch.store.create(scratch.numbered_key, _unique())
    try:
        scratch.store.put(scratch.numbered_key, _unique())
    except CredentialsRefused:
        raise
    except AccessDenied:
        return True
    return False


def _created(store: ObjectStore, key: str) -> bool:
    try:
        store.create(key, _unique())
    except AlreadyExists:
        return False
    return True


def _unique() -> bytes:
    """An object with the same content would count as one's own."""
    return uuid4().hex.encode()
