"""The identity of a source, the keys of its state, and reading the checkpoint's copy."""

from dataclasses import dataclass

from blizzard.config import source_names
from blizzard.errors import NotFound, UnreadableState
from blizzard.state.checkpoint import Checkpoint, decode
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """A source of a pipeline. `state_prefix`: where its state is in the table's store."""

    pipeline: str
    source: str
    state_prefix: str

    @property
    def app_id(self) -> str:
        """The app id of the source's Txn in the Delta log."""
        return f"blizzard:{self.source_id}"

    @property
    def source_id(self) -> str:
        return source_names.source_id(self.pipeline, self.source)

    @property
    def copy_key(self) -> str:
        """The key of the checkpoint's copy."""
        return f"{self.state_prefix}_checkpoint.json"

    @property
    def report_key(self) -> str:
        """The key of the report of the source's sweeps."""
        return f"{self.state_prefix}_sweep.json"


def read_copy(store: ObjectStore, identity: SourceIdentity) -> Checkpoint | None:
    """The checkpoint's copy. None if it is missing or unreadable: the table has the checkpoint too."""
    try:
        return read_copy_strictly(store, identity)
    except (NotFound, UnreadableState):
        return None


def read_copy_strictly(store: ObjectStore, identity: SourceIdentity) -> Checkpoint:
    """The checkpoint's copy. Raises NotFound or UnreadableState."""
    return decode(store.get(identity.copy_key), pipeline=identity.pipeline, source=identity.source)
