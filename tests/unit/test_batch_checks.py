"""What the outcomes of reading say about the batch as a whole."""

import pytest

from blizzard.errors import PermanentError, StorageUnavailable
from blizzard.manifest.segments import FoundBy
from blizzard.state.batch import PlannedFile
from spark_job.loop.files.batch_checks import check_complete, refuse_if_systemic
from spark_job.ports.reader import FailureKind, Outcome


def outcomes(*kinds: FailureKind | None) -> list[Outcome]:
    return [Outcome(f"{number}.txt", "e", 1, error="403", failure_kind=kind) for number, kind in enumerate(kinds)]


def test_one_file_with_a_systemic_failure_is_enough_to_stop() -> None:
    with pytest.raises(PermanentError, match=r"1 of 4 files of events:landing were refused, the first \(3\.txt\)"):
        refuse_if_systemic(outcomes(None, None, None, FailureKind.SYSTEMIC), "events:landing", min_denied_files=2)


def test_one_file_with_a_transient_failure_is_enough_to_retry() -> None:
    with pytest.raises(StorageUnavailable, match=r"1\.txt could not be read"):
        refuse_if_systemic(outcomes(FailureKind.DENIED, FailureKind.TRANSIENT), "events:landing", min_denied_files=1)


@pytest.mark.parametrize(
    ("denied", "of", "min_denied_files", "stops"),
    [(1, 1, 1, True), (1, 1, 2, False), (2, 4, 1, False), (3, 4, 1, True)],
)
def test_denied_files_stop_the_run_if_they_are_most_of_a_batch(
    denied: int, of: int, min_denied_files: int, stops: bool
) -> None:
    found = outcomes(*[FailureKind.DENIED] * denied, *[None] * (of - denied))
    if not stops:
        refuse_if_systemic(found, "events:landing", min_denied_files=min_denied_files)
        return
    with pytest.raises(PermanentError, match=f"{denied} of {of} files"):
        refuse_if_systemic(found, "events:landing", min_denied_files=min_denied_files)


PLANNED = [PlannedFile(name, 1, 0.0, FoundBy.EVENT) for name in ("a", "b", "c")]
READ = [
    Outcome("a", "e", 1, rows=2, dead_records=1, records_read=3),
    Outcome("b", "e", 1, rows=9, error="truncated"),
    Outcome("c", "e", 1, rows=0),
]


def test_held_rows_are_those_of_the_readable_files() -> None:
    check_complete(PLANNED, READ, 2)


@pytest.mark.parametrize(
    ("outcomes", "held"),
    [(READ, 1), (READ, 3), (READ, 11), ([*READ, READ[0]], 4), ([*READ, READ[2]], 2), (READ[:2], 2)],
    ids=[
        "a row lost",
        "a row doubled",
        "those of a bad file too",
        "a file twice",
        "an empty file twice",
        "a file lost",
    ],
)
def test_a_reader_that_loses_or_doubles_rows_stops_the_run(outcomes: list[Outcome], held: int) -> None:
    with pytest.raises(PermanentError, match="bug in the reader"):
        check_complete(PLANNED, outcomes, held)
