"""What the sweeper counts."""

from blizzard.sweep.commit_counts import CommitCounts
from functions.sweeper.composition import RoundCounts


def metrics_of(done: RoundCounts) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "Sweeps": done.sweeps,
        "FilesListed": done.files_listed,
        "FilesFound": done.files_found,
        "FilesMissed": done.files_missed,
        "SweepsFailed": done.failed,
        "SweepsIncomplete": done.incomplete,
        "WakesFailed": done.wakes_failed,
    }


def commit_metrics_of(counts: CommitCounts) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "FilesCommitted": counts.files,
        "RowsCommitted": counts.rows,
        "DeadFiles": counts.dead_files,
        "DeadRecords": counts.dead_records,
    }


def schema_metrics_of(counts: CommitCounts) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "UnknownValues": counts.unknown_values,
        "MisfitValues": counts.misfit_values,
        "SchemaChanges": counts.schema_changes,
    }


def catalog_metrics_of(done: RoundCounts) -> dict[str, int]:
    """By the names of the metrics."""
    return {
        "TablesNotRegistered": done.tables_not_registered,
    }
