"""What became of the deferred records: rows in further data files, or dead letters."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.state.dead_letters import DeadLetter, Stage
from spark_job.tasks.unknown_fields import UnknownFieldCounts
from spark_job.write.data_file import DataFile

BY_RECORD = [("file", "ascending"), ("row", "ascending")]


class DecidedRecords(Protocol):
    """Deferred records, each of which is either a row in one of `data_files` or refused."""

    @property
    def refused(self) -> Mapping[str, int]:
        """Number of refused records by file."""
        ...

    @property
    def misfits(self) -> UnknownFieldCounts:
        """Values of the rows that were kept beside their columns, if the tasks have not counted them."""
        ...

    @property
    def data_files(self) -> Sequence[DataFile]: ...

    def dead_letters(self) -> Iterator[DeadLetter]:
        """The dead letters of the refused records, sorted by file and row."""
        ...

    def release(self) -> None:
        """Free memory and caches. No other method may be called afterwards."""
        ...


class RefusedByTasks:
    """Records that a task refused while it read them; `records` has the columns of `deferred_records_type`."""

    def __init__(self, records: pa.Table) -> None:
        self._records = records.sort_by(BY_RECORD)
        self.refused = counted_by_file(records)
        self.misfits = UnknownFieldCounts()
        self.data_files: Sequence[DataFile] = ()

    def dead_letters(self) -> Iterator[DeadLetter]:
        return (
            dead_letter_of(row) for batch in self._records.to_batches(max_chunksize=1000) for row in batch.to_pylist()
        )

    def release(self) -> None:
        """Nothing to free but memory."""


def counted_by_file(records: pa.Table) -> Counter[str]:
    return Counter({count["values"]: count["counts"] for count in records["file"].value_counts().to_pylist()})


def dead_letters_of(parts: Iterable[DecidedRecords]) -> Iterator[DeadLetter]:
    """The dead letters of all parts, sorted by file and row."""
    return merge(*(part.dead_letters() for part in parts), key=lambda letter: (letter.path, letter.row or 0))


def refused_already(deferred: pa.Table, failed: Iterable[str]) -> pa.Table:
    """The records that a task refused, without those of the `failed` files, which have a dead letter of their own."""
    of_failed = pc.is_in(deferred["file"], pa.array([*failed], pa.string()))
    return deferred.filter(pc.and_(pc.is_valid(deferred["fault"]), pc.invert(of_failed)))


def first_undecided(deferred: pa.Table) -> str:
    """As `record 3 of a.ndjson`. There must be one."""
    undecided = deferred.filter(pc.is_null(deferred["fault"])).select(["file", "row"])
    at = pc.select_k_unstable(undecided, k=1, sort_keys=BY_RECORD)
    [first] = undecided.take(at).to_pylist()
    return f"record {first['row']} of {first['file']}"


def dead_letter_of(row: Any) -> DeadLetter:
    raw = bytes(row["undecodable"]) if row["undecodable"] is not None else row["line"]
    place = row["file"], row["etag"], Stage.PARSE, row["fault"], row["row"]
    return DeadLetter(*place, raw, member=row["member"], about=row["about"])
