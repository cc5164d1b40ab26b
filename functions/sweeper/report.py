"""What the sweeper counts."""

from functions.sweeper.composition import Round


def metrics_of(done: Round) -> dict[str, int]:
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
