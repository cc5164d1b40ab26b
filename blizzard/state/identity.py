"""The identity of a source, and the keys of its state."""

from dataclasses import dataclass

from blizzard.config import source_names

APP_ID_PREFIX = "blizzard:"
"""Of every source's."""


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
