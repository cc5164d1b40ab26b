"""A reader of files of lines, in memory."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from blizzard.errors import NotFound
from blizzard.state.batch import PlannedFile
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from blizzard.state.unknown_fields import UnknownField, UnknownFields
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.ports.reader import FailureKind, Outcome
from tests.unit.memory_table import MemoryRows, Row
from tests.unit.watched_calls import Calls, Clock

POISON = b"\x00poison"
"""A file that begins with this cannot be decompressed."""
REFUSED = "!"
"""A record that begins with this does not parse."""
FIELD = "+"
"""A word of a record that begins with this is a field, which needs a column of its name."""


class MemoryReader:
    """Reads lines. Storage denies the paths in `denied`, and fails for the next `transient_failures` files.
    `write_share`: that of its rows."""

    def __init__(
        self, source: ObjectStore, dead_letters: DeadLetters, source_id: str, clock: Clock, calls: Calls
    ) -> None:
        self._source = source
        self._dead_letters = dead_letters
        self._source_id = source_id
        self._clock = clock
        self._calls = calls
        self.denied: set[str] = set()
        self.transient_failures = 0
        self.write_share = 0.0
        self.columns: Callable[[], frozenset[str]] = frozenset
        """Those of the table that files have brought."""
        self.batches: list[MemoryRows] = []
        self.replacing: list[bool] = []
        """For each read, whether its rows were to replace others."""

    def read(self, files: Sequence[PlannedFile], *, sequence: int, replacing: bool = False) -> MemoryRows:
        self._calls("read")
        self.replacing.append(replacing)
        rows: list[Row] = []
        letters: list[DeadLetter] = []
        outcomes = [self._read_file(file, sequence, rows, letters) for file in files]
        columns = self.columns()
        rows = [replace(row, columns=columns) for row in rows]
        rows_read = MemoryRows(outcomes, rows, letters, self._dead_letters, self._clock, self.write_share)
        rows_read.columns, rows_read.unknown_fields = columns, _unknown_fields(rows, columns)
        self.batches.append(rows_read)
        return rows_read

    def _read_file(self, file: PlannedFile, sequence: int, rows: list[Row], letters: list[DeadLetter]) -> Outcome:
        if self.transient_failures:
            self.transient_failures -= 1
            return _failed(file, "", "503 slow down", failure_kind=FailureKind.TRANSIENT)
        if file.path in self.denied:
            return _failed(file, file.expected_etag or "", "403 forbidden", failure_kind=FailureKind.DENIED)
        if file.given:
            return self._take_given(file, sequence, rows, letters)
        try:
            with self._source.open(file.path) as reader:
                info, content = reader.info, reader.read()
        except NotFound:
            return _failed(file, file.expected_etag or "", "gone")
        if file.expected_etag not in (None, info.etag):
            return _failed(file, file.expected_etag or "", "it changed while in progress")
        if content.startswith(POISON):
            return _failed(file, info.etag, "not a gzip file", stage=Stage.DECOMPRESS)
        return self._read_records(file, info, content, sequence, rows, letters)

    def _take_given(self, file: PlannedFile, sequence: int, rows: list[Row], letters: list[DeadLetter]) -> Outcome:
        etag, good = file.expected_etag or "", 0
        for number, value in file.given:
            if value.startswith(REFUSED):
                letters.append(DeadLetter(file.path, etag, Stage.PARSE, "no record", number, value))
            else:
                rows.append(Row(self._source_id, file.path, number, etag, value, sequence))
                good += 1
        return Outcome(file.path, etag, file.size, good, len(file.given) - good, len(file.given))

    def _read_records(
        self,
        file: PlannedFile,
        info: ObjectInfo,
        content: bytes,
        sequence: int,
        rows: list[Row],
        letters: list[DeadLetter],
    ) -> Outcome:
        records = content.decode().splitlines()
        last = _end_of_slice(records, file)
        good = dead = 0
        for number in range(file.skip_records, last):
            if file.records is not None and number not in file.records:
                continue
            value = records[number]
            if value.startswith(REFUSED):
                letters.append(DeadLetter(file.path, info.etag, Stage.PARSE, "no record", number, value))
                dead += 1
            else:
                rows.append(Row(self._source_id, file.path, number, info.etag, value, sequence))
                good += 1
        return Outcome(file.path, info.etag, info.size, good, dead, last, finished=last >= len(records))


def fields_of(value: str) -> set[str]:
    return {word.removeprefix(FIELD) for word in value.split() if word.startswith(FIELD)}


def _unknown_fields(rows: Sequence[Row], columns: frozenset[str]) -> UnknownFields:
    first: dict[str, UnknownField] = {}
    for row in rows:
        for name in fields_of(row.value) - columns:
            known = first.setdefault(name, UnknownField(name, 0, row.path, row.row, kind="string"))
            first[name] = known._replace(records=known.records + 1)
    return UnknownFields.of(first.values())


def _end_of_slice(records: Sequence[str], file: PlannedFile) -> int:
    """The number of the record at which the slice ends (exclusive). A slice has at least one record."""
    if file.slice_bytes is None:
        return max(len(records), file.skip_records)
    budget_bytes, number = file.slice_bytes, file.skip_records
    while number < len(records) and budget_bytes > 0:
        budget_bytes -= len(records[number]) + 1
        number += 1
    return number


def _failed(
    file: PlannedFile, etag: str, error: str, *, stage: Stage = Stage.DOWNLOAD, failure_kind: FailureKind | None = None
) -> Outcome:
    return Outcome(
        file.path, etag, file.size, records_read=file.skip_records, stage=stage, error=error, failure_kind=failure_kind
    )
