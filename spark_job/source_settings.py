"""From the configuration of a source of files to the settings of its loop."""

from blizzard.config.model import Source
from blizzard.state.batch import BatchRules, OnOverwrite
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.sweep.rules import LOCAL_OVERLAP_SECS
from blizzard.sweep.source_sweep import sweep_rules
from spark_job.loop.files.settings import FileSettings

SEGMENTS_AHEAD = 4


def file_settings(source: Source, files: ObjectStore, state: ObjectStore) -> FileSettings:
    dated = source.partition_filter
    overlap_secs = LOCAL_OVERLAP_SECS if isinstance(files, LocalStore) else source.sweep.late_overlap_secs
    rules = sweep_rules(
        pattern=source.pattern,
        prefix_template=dated.prefix_template if dated else None,
        lookback=dated.lookback if dated else 1,
        settle_delay_secs=source.settle_delay_secs,
        late_overlap_secs=overlap_secs,
        unordered_requests=source.sweep.unordered_requests,
        quiet_secs=source.sweep.quiet_secs,
        late_interval_secs=source.sweep.late_interval_secs,
    )
    return FileSettings(
        rules=BatchRules(
            folder_of=rules.folder_of,
            interval_files=source.checkpoint.interval_files,
            interval_bytes=source.checkpoint.interval_bytes,
            late_overlap_secs=overlap_secs,
            on_overwrite=OnOverwrite(source.on_overwrite),
        ),
        sweep_rules=rules,
        interval_secs=source.checkpoint.interval_secs,
        max_attempts=source.retries.max_attempts,
        max_backoff_secs=source.retries.max_backoff_secs,
        min_denied_files=2 if isinstance(files, LocalStore) else 1,
        segments_ahead=0 if isinstance(state, LocalStore) else SEGMENTS_AHEAD,
    )
