"""What one Spark task reads: its files, one after the other, into Arrow batches; objects are fetched ahead of it."""

import io
import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from blizzard.dead_letters import Stage
from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    BucketMissing,
    CredentialsRefused,
    NotFound,
    StorageUnavailable,
)
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from spark_job.decode import FileFault, Limits, compression_of, decompressed, lines, refusal, utf8
from spark_job.ports import Outcome, Trouble

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_AHEAD = 16
FETCH_THREADS = 8
SMALL_BYTES = 2 << 20
"""Objects up to this size are fetched whole and ahead; larger ones are streamed when their turn comes."""

BATCH_ROWS = 20_000
BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class TaskFile:
    """One file to read. `partitions` are the values of the source's partition columns, as text."""

    path: str
    size: int
    skip_records: int = 0
    slice_bytes: int | None = None
    expected_etag: str | None = None
    partitions: tuple[str | None, ...] = ()
    refusal: str | None = None
    """Why none of it can be a row of the table, where its path says so; it is opened for its etag alone."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How a source's files are read."""

    format: str = "ndjson"
    compression: str = "auto"
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class _Columns:
    """The rows of an Arrow batch in the making; the fields stand in the order of the data source's schema."""

    partitions: list[list[str | None]]
    file: list[str] = field(default_factory=list)
    row: list[int] = field(default_factory=list)
    etag: list[str] = field(default_factory=list)
    modified: list[datetime] = field(default_factory=list)
    line: list[str | None] = field(default_factory=list)
    fault: list[str | None] = field(default_factory=list)
    undecodable: list[bytes | None] = field(default_factory=list)
    outcome: list[str | None] = field(default_factory=list)
    text_bytes: int = 0

    def add(
        self,
        task_file: TaskFile,
        info: ObjectInfo,
        first_row: int,
        texts: Sequence[str | None],
        faults: Sequence[str | None],
        undecodable: Sequence[bytes | None],
        outcomes: Sequence[str | None],
    ) -> None:
        count = len(texts)
        self.file.extend([task_file.path] * count)
        self.row.extend(range(first_row, first_row + count))
        self.etag.extend([info.etag] * count)
        self.modified.extend([datetime.fromtimestamp(info.modified_ts, UTC)] * count)
        self.line.extend(texts)
        self.fault.extend(faults)
        self.undecodable.extend(undecodable)
        self.outcome.extend(outcomes)
        for column, value in zip(self.partitions, task_file.partitions, strict=True):
            column.extend([value] * count)
        self.text_bytes += sum(len(text) for text in texts if text is not None)
        self.text_bytes += sum(len(raw) for raw in undecodable if raw is not None)

    @property
    def full(self) -> bool:
        return len(self.row) >= BATCH_ROWS or self.text_bytes >= BATCH_BYTES


class TaskReader:
    """Reads files from `store` and yields Arrow batches of `columns`: the records, and one outcome for each file."""

    def __init__(self, store: ObjectStore, settings: ReadSettings, partition_columns: int) -> None:
        self._store = store
        self._settings = settings
        self._partition_columns = partition_columns
        self._columns = self._fresh()
        self._outage: StorageUnavailable | None = None

    def _fresh(self) -> _Columns:
        return _Columns([[] for _ in range(self._partition_columns)])

    def batches(self, files: Sequence[TaskFile]) -> "Iterator[pa.RecordBatch]":
        with ThreadPoolExecutor(FETCH_THREADS) as pool:
            for task_file, fetched in _ahead(self._store, files, pool):
                for _ in self._read_file(task_file, fetched):
                    if self._columns.full:
                        yield self._flush()
        if self._columns.row:
            yield self._flush()

    def _flush(self) -> "pa.RecordBatch":
        import pyarrow as pa

        columns, self._columns = self._columns, self._fresh()
        arrays = [
            pa.array(columns.file, pa.string()),
            pa.array(columns.row, pa.int64()),
            pa.array(columns.etag, pa.string()),
            pa.array(columns.modified, pa.timestamp("us", tz="UTC")),
            pa.array(columns.line, pa.string()),
            pa.array(columns.fault, pa.string()),
            pa.array(columns.undecodable, pa.binary()),
            pa.array(columns.outcome, pa.string()),
            *(pa.array(values, pa.string()) for values in columns.partitions),
        ]
        return pa.RecordBatch.from_arrays(arrays, names=column_names(self._partition_columns))

    def _read_file(self, task_file: TaskFile, fetched: "Future[_Fetched | None] | None") -> Iterator[None]:
        """Add the file's records, yielding after each group, and at the end its outcome."""
        progress = _Progress(task_file)
        try:
            if self._outage is not None:
                raise self._outage
            with ExitStack() as stack:
                reader = self._opened(task_file, fetched, stack)
                progress.info = reader.info
                _check_wanted(task_file, reader.info)
                yield from self._records(task_file, reader, progress)
            outcome = progress.outcome()
        except FileFault as fault:
            outcome = progress.outcome(fault.stage, fault.reason)
        except BlizzardError as error:
            # The batch is lost to an outage already: no other file has to run through all its retries, too.
            self._outage = error if isinstance(error, StorageUnavailable) else None
            outcome = progress.outcome(Stage.DOWNLOAD, _reason(error), _trouble(error))
        self._columns.add(task_file, progress.info, outcome.records_read, [None], [None], [None], [_json(outcome)])
        yield

    def _opened(self, task_file: TaskFile, fetched: "Future[_Fetched | None] | None", stack: ExitStack) -> ObjectReader:
        whole = fetched.result() if fetched is not None else None
        return whole if whole is not None else stack.enter_context(self._store.open(task_file.path))

    def _records(self, task_file: TaskFile, reader: ObjectReader, progress: "_Progress") -> Iterator[None]:
        counted = _Counted(reader)
        read = decompressed(counted, compression_of(task_file.path, self._settings.compression))
        text_format = self._settings.format == "text"
        for group in lines(read, self._settings.limits):
            records = group if text_format else [line for line in group if line and not line.isspace()]
            skipped = max(0, min(len(records), task_file.skip_records - progress.records))
            first_row, records = progress.records + skipped, records[skipped:]
            progress.records += skipped
            for start in range(0, len(records), BATCH_ROWS):
                self._add_records(task_file, progress, first_row + start, records[start : start + BATCH_ROWS])
                yield
            if task_file.slice_bytes is not None and progress.slice_is_over(counted.bytes_read, bool(records)):
                progress.finished = False
                return

    def _add_records(self, task_file: TaskFile, progress: "_Progress", row: int, records: list[bytes]) -> None:
        add = self._add_text if self._settings.format == "text" else self._add_json
        add(task_file, progress, row, records)

    def _add_json(self, task_file: TaskFile, progress: "_Progress", row: int, records: list[bytes]) -> None:
        texts = utf8(records, row)
        faults = [refusal(text) for text in texts]
        self._add(task_file, progress, row, texts, faults, [None] * len(texts))

    def _add_text(self, task_file: TaskFile, progress: "_Progress", row: int, records: list[bytes]) -> None:
        texts: list[str | None] = []
        faults: list[str | None] = []
        for record in records:
            try:
                texts.append(record.decode())
                faults.append(None)
            except UnicodeDecodeError as error:
                texts.append(None)
                faults.append(f"not UTF-8 at byte {error.start}: {error.reason}")
        raw = [record if fault else None for record, fault in zip(records, faults, strict=True)]
        self._add(task_file, progress, row, texts, faults, raw)

    def _add(
        self,
        task_file: TaskFile,
        progress: "_Progress",
        row: int,
        texts: Sequence[str | None],
        faults: Sequence[str | None],
        undecodable: Sequence[bytes | None],
    ) -> None:
        self._columns.add(task_file, progress.info, row, texts, faults, undecodable, [None] * len(texts))
        progress.records += len(texts)


@dataclass(slots=True)
class _Progress:
    """How far a file was read."""

    task_file: TaskFile
    info: ObjectInfo = field(init=False)
    records: int = 0
    finished: bool = True
    slice_started_at: int | None = None

    def __post_init__(self) -> None:
        self.info = ObjectInfo(self.task_file.path, self.task_file.size, "", 0.0)

    def slice_is_over(self, bytes_read: int, began: bool) -> bool:
        """Whether this slice has had its share of the stored bytes; skipping what is committed does not count."""
        if self.slice_started_at is None:
            self.slice_started_at = bytes_read if began and self.task_file.skip_records else 0 if began else None
        if self.slice_started_at is None or self.task_file.slice_bytes is None:
            return False
        return bytes_read - self.slice_started_at >= self.task_file.slice_bytes

    def outcome(self, stage: Stage | None = None, error: str | None = None, trouble: Trouble | None = None) -> Outcome:
        return Outcome(
            path=self.task_file.path,
            etag=self.info.etag,
            size=self.info.size,
            rows=max(0, self.records - self.task_file.skip_records),
            records_read=self.records,
            finished=self.finished or error is not None,
            stage=stage,
            error=error,
            trouble=trouble,
        )


class _Counted:
    """An object's reader that counts what was read of it."""

    def __init__(self, reader: ObjectReader) -> None:
        self._reader = reader
        self.bytes_read = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._reader.read(size)
        self.bytes_read += len(data)
        return data


@dataclass(frozen=True, slots=True)
class _Fetched:
    """A small object that was fetched whole."""

    info: ObjectInfo
    body: io.BytesIO

    def read(self, size: int = -1, /) -> bytes:
        return self.body.read(size)


def _fetch(store: ObjectStore, path: str) -> _Fetched | None:
    """None when the object turns out to be large: it is streamed instead."""
    with store.open(path) as reader:
        body = reader.read(SMALL_BYTES + 1) if reader.info.size <= SMALL_BYTES else None
        return _Fetched(reader.info, io.BytesIO(body)) if body is not None and len(body) <= SMALL_BYTES else None


def _ahead(
    store: ObjectStore, files: Sequence[TaskFile], pool: ThreadPoolExecutor
) -> "Iterator[tuple[TaskFile, Future[_Fetched | None] | None]]":
    """The files in order, each small one with the fetch that was begun for it up to FETCH_AHEAD files before."""
    waiting: deque[tuple[TaskFile, Future[_Fetched | None] | None]] = deque()
    for task_file in files:
        small = task_file.size <= SMALL_BYTES and task_file.slice_bytes is None
        waiting.append((task_file, pool.submit(_fetch, store, task_file.path) if small else None))
        if len(waiting) > FETCH_AHEAD:
            yield waiting.popleft()
    yield from waiting


def _check_wanted(task_file: TaskFile, info: ObjectInfo) -> None:
    if task_file.refusal is not None:
        raise FileFault(Stage.PARSE, task_file.refusal)
    if task_file.expected_etag is not None and info.etag != task_file.expected_etag:
        raise FileFault(
            Stage.DOWNLOAD,
            f"it changed while in progress: {task_file.skip_records} records of etag {task_file.expected_etag} are "
            f"committed and it has etag {info.etag} now; the rest was not ingested",
        )


def _reason(error: BlizzardError) -> str:
    return "gone: there is no such object" if isinstance(error, NotFound) else str(error)


def _trouble(error: BlizzardError) -> Trouble | None:
    if isinstance(error, StorageUnavailable):
        return Trouble.PASSING
    if isinstance(error, CredentialsRefused | BucketMissing):
        return Trouble.EVERYBODYS
    return Trouble.DENIED if isinstance(error, AccessDenied) else None


def _json(outcome: Outcome) -> str:
    return json.dumps(asdict(outcome), separators=(",", ":"))


def outcome_of(text: str) -> Outcome:
    """An outcome as the task wrote it."""
    document: dict[str, Any] = json.loads(text)
    stage, trouble = document.pop("stage"), document.pop("trouble")
    return Outcome(
        **document, stage=None if stage is None else Stage(stage), trouble=None if trouble is None else Trouble(trouble)
    )


def column_names(partition_columns: int) -> list[str]:
    """The columns of the Arrow batches, in order."""
    fixed = ["file", "row", "etag", "modified", "line", "fault", "undecodable", "outcome"]
    return [*fixed, *(f"partition_{index}" for index in range(partition_columns))]
