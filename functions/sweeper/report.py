"""What the sweeper counts."""

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
