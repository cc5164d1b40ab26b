"""Which source this is, where its files of state are, and reading the checkpoint's copy."""

from dataclasses import dataclass

from blizzard.errors import NotFound, UnreadableState
from blizzard.state.checkpoint import Checkpoint, decode
from blizzard.storage.base import ObjectStore


@dataclass(frozen=True, slots=True)
class Identity:
    """Which source of which pipeline this is, and where its files of state are."""

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


def read_copy(store: ObjectStore, identity: Identity) -> Checkpoint | None:
    """The checkpoint's copy; None when it is missing or unreadable, which costs nothing but time."""
    try:
        return decode(store.get(identity.copy_key), pipeline=identity.pipeline, source=identity.source)
    except (NotFound, UnreadableState):
        return None
