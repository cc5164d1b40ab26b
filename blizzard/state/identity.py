"""The identity of a source, and the keys of its state."""

import re
from dataclasses import dataclass

from blizzard.config import source_names

APP_ID_PREFIX = "blizzard:"
"""Of every source's, and of those of the first Blizzard, behind which they have base64."""
_APP_ID = re.compile(rf"{APP_ID_PREFIX}([^:]+:[^:]+)(?::[^:]+:[0-9]+)?")


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """A source of a pipeline. `state_prefix`: where its state is in the table's store."""

    pipeline: str
    source: str
    state_prefix: str

    @property
    def app_id(self) -> str:
        """The app id of the source's Txn in the Delta log."""
        return f"{APP_ID_PREFIX}{self.source_id}"

    @property
    def source_id(self) -> str:
        return source_names.source_id(self.pipeline, self.source)

    @property
    def copy_key(self) -> str:
        """The key of the checkpoint's copy."""
        return f"{self.state_prefix}_checkpoint.json"

    @property
    def bases_folder(self) -> str:
        """The folder of the bases that checkpoints name; ends in `/`."""
        return f"{self.state_prefix}/bases/"

    @property
    def report_key(self) -> str:
        """The key of the report of the source's sweeps."""
        return f"{self.state_prefix}_sweep.json"


def source_of_app_id(app_id: str) -> str | None:
    """The id of the source of which a Txn is, or of one of whose partitions; None: it is of something else."""
    match = _APP_ID.fullmatch(app_id)
    return None if match is None else match[1]
