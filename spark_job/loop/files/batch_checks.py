"""Checks of a batch as a whole, from the outcomes of reading: is it complete, is a failure systemic, what was read."""

from collections.abc import Sequence

from blizzard.errors import PermanentError, StorageUnavailable
from blizzard.state.batch import PlannedFile
from blizzard.state.checkpoint import FINISHED
from spark_job.ports.reader import FailureKind, Outcome


def check_complete(files: Sequence[PlannedFile], outcomes: Sequence[Outcome], row_count: int) -> None:
    """A file without an outcome would count as ingested, and a slice without progress would be read forever. The rows
    of the outcomes, which the receipt repeats, must add up to the `row_count` rows that wait for the commit.

    Raises PermanentError.
    """
    by_path = {outcome.path: outcome for outcome in outcomes}
    for file in files:
        outcome = by_path.get(file.path)
        if outcome is None or not (outcome.finished or outcome.error or outcome.records_read > file.skip_records):
            raise PermanentError(
                f"the reader reported for {file.path}: {outcome or 'nothing'}; expected an outcome beyond record "
                f"{file.skip_records}. Nothing was committed; this is a bug in the reader, please report it."
            )
    expected = sum(outcome.rows for outcome in outcomes if outcome.error is None)
    if len(by_path) != len(outcomes) or expected != row_count:
        raise PermanentError(
            f"the reader reported {len(outcomes)} outcomes for {len(by_path)} files, with {expected} rows, and holds "
            f"{row_count} rows. Expected one outcome for each file, and equal numbers of rows. Nothing was committed; "
            "this is a bug in the reader, please report it."
        )


def refuse_if_systemic(outcomes: Sequence[Outcome], source_id: str, *, min_denied_files: int) -> None:
    """Stop, and dead-letter nothing, when storage fails or denies most of a batch: the cause is not in the files.

    `min_denied_files`: fewer denied files are not a systemic failure. Raises StorageUnavailable after a transient
    failure, PermanentError after a systemic one.
    """
    for outcome in outcomes:
        if outcome.failure_kind is FailureKind.TRANSIENT:
            raise StorageUnavailable(f"{outcome.path} could not be read: {outcome.error}. Nothing was committed.")
    denied = [outcome for outcome in outcomes if outcome.failure_kind in (FailureKind.DENIED, FailureKind.SYSTEMIC)]
    certain = any(outcome.failure_kind is FailureKind.SYSTEMIC for outcome in denied)
    if certain or (2 * len(denied) > len(outcomes) and len(denied) >= min_denied_files):
        raise PermanentError(
            f"{len(denied)} of {len(outcomes)} files of {source_id} were refused, the first "
            f"({denied[0].path}) with: {denied[0].error}. Nothing was dead-lettered or committed. Correct the "
            "permissions, keys or disk that this error names, and start the job again."
        )


def records_read(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Path to what the checkpoint keeps of the file: FINISHED, or the number of records read so far."""
    return {o.path: FINISHED if o.finished or o.error is not None else o.records_read for o in outcomes}
