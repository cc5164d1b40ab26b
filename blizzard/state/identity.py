"""The identity of a source, the keys of its state, and reading the checkpoint's copy."""

from dataclasses import dataclass

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
        return f"blizzard:{self.pipeline}:{self.source}"

    @property
    def source_id(self) -> str:
        return f"{self.pipeline}:{self.source}"

    @property
    def copy_key(self) -> str:
        return f"{self.state_prefix}_checkpoint.json"

    @property
    def report_key(self) -> str:
        return f"{self.state_prefix}_sweep.json"


def read_copy(store: ObjectStore, identity: SourceIdentity) -> Checkpoint | None:
    """The checkpoint's copy. None if it is missing or unreadable: the table has the checkpoint too."""
    try:
        return decode(store.get(identity.copy_key), pipeline=identity.pipeline, source=identity.source)
    except (NotFound, UnreadableState):
        return None
