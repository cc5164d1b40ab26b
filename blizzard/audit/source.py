"""What an audit has to know of a source, in a form that its processes share."""

from dataclasses import dataclass
from functools import lru_cache

from blizzard.config.model import Pipeline, Source
from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings
from blizzard.sweep.rules import LOCAL_OVERLAP_SECS, SweepRules
from blizzard.sweep.source_sweep import sweep_rules


@dataclass(frozen=True, slots=True)
class AuditedSource:
    """`overwrites_count`: whether `on_overwrite` does something with a file that changed after it was ingested.
    `slice_bytes`: larger files are read in slices, each by a commit."""

    identity: SourceIdentity
    uri: str
    table_uri: str
    s3: S3Settings
    pattern: str
    prefix_template: str | None
    lookback: int
    settle_delay_secs: float
    late_overlap_secs: float
    late_interval_secs: float
    quiet_secs: float
    overwrites_count: bool
    slice_bytes: int

    @property
    def files(self) -> ObjectStore:
        """Where the source's files are."""
        return _store(self.uri, self.s3, False)

    def files_telling(self, log: Log) -> ObjectStore:
        """The same; a local listing logs what it leaves out. Others leave nothing out."""
        return open_store(self.uri, self.s3, log=log) if isinstance(self.files, LocalStore) else self.files

    @property
    def state(self) -> ObjectStore:
        """The table, with the source's state."""
        return _store(self.table_uri, self.s3, True)

    def rules(self) -> SweepRules:
        overlap_secs = LOCAL_OVERLAP_SECS if isinstance(self.files, LocalStore) else self.late_overlap_secs
        return sweep_rules(
            pattern=self.pattern,
            prefix_template=self.prefix_template,
            lookback=self.lookback,
            settle_delay_secs=self.settle_delay_secs,
            late_overlap_secs=overlap_secs,
            quiet_secs=self.quiet_secs,
            late_interval_secs=self.late_interval_secs,
        )


def audited_source(pipeline: Pipeline, source: Source, s3: S3Settings) -> AuditedSource:
    dated = source.partition_filter
    return AuditedSource(
        identity=SourceIdentity(pipeline.name, source.name, source.state_prefix),
        uri=source.uri,
        table_uri=pipeline.table_uri,
        s3=s3,
        pattern=source.pattern,
        prefix_template=dated.prefix_template if dated else None,
        lookback=dated.lookback if dated else 1,
        settle_delay_secs=source.settle_delay_secs,
        late_overlap_secs=source.sweep.late_overlap_secs,
        late_interval_secs=source.sweep.late_interval_secs,
        quiet_secs=source.sweep.quiet_secs,
        overwrites_count=source.on_overwrite != "ignore",
        slice_bytes=source.checkpoint.interval_bytes,
    )


@lru_cache
def _store(uri: str, s3: S3Settings, may_be_missing: bool) -> ObjectStore:
    """One for each process: connections are reused."""
    return open_store(uri, s3, may_be_missing=may_be_missing)
