"""What one Spark task does: it reads its files one by one and writes their records to data files of the table."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blizzard.config.compressions import ZIP
from blizzard.errors import (
    AccessDenied,
    BlizzardError,
    BucketMissing,
    CredentialsRefused,
    NotFound,
    StorageBroken,
    StorageUnavailable,
)
from blizzard.state.dead_letters import Stage
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from spark_job.expressions.rules import RowRules
from spark_job.formats.protocol import Block, FileFault, Format, Readable
from spark_job.ports.reader import FailureKind, Outcome
from spark_job.ports.stopwatch import Stopwatch
from spark_job.tasks.deferred_records import DeferredRecords
from spark_job.tasks.error_context import add_file_names
from spark_job.tasks.fetch import FetchAhead, FileFetch, TaskFile, fetch_files
from spark_job.tasks.file_content import FileContent
from spark_job.tasks.file_parts import FileParts, Part, RefusedMember, SingleFile, explained
from spark_job.tasks.provenance import Provenance, RecordRange
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.record_pipeline import RecordPipeline
from spark_job.tasks.report import Report
from spark_job.tasks.some_records import GivenRecords, wanted_of
from spark_job.write.data_file import DataFile
from spark_job.write.parquet_files import DataFileWriter
from spark_job.write.write_errors import CannotWriteError

if TYPE_CHECKING:
    from spark_job.expressions.row_checker import RowChecker

REMOTE_THREADS = 128
"""Requests of a task at once: at 30 ms each, more files a second than a core can parse."""
MAX_PARSERS = 4
_CHANGED = "it changed while in progress"


class TaskReader:
    """Reads files from `store` into data files; records that do not become rows go to `deferred`. `new_writer` makes a
    writer for the rows of many files, or of one large file. `monotonic` is a clock in seconds."""

    def __init__(
        self,
        store: ObjectStore,
        settings: ReadSettings,
        file_format: Format[Any],
        provenance: Provenance,
        new_writer: Callable[[], DataFileWriter],
        deferred: DeferredRecords,
        *,
        remote: bool,
        parsers: int = 1,
        rules: RowRules | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._settings = settings
        self._format = file_format
        self._formats = settings.formats
        self._compressions = settings.compressions()
        self._provenance = provenance
        self._new_writer = new_writer
        self._fetch_ahead = FetchAhead(REMOTE_THREADS if remote else 0, settings.ahead_bytes)
        self._parsers = min(parsers, MAX_PARSERS)
        self._checker = checker_of(rules)
        self._deferred = deferred
        self._watch = Stopwatch(monotonic)
        self._report = Report()
        self._outage: StorageUnavailable | None = None

    def read(self, files: Sequence[TaskFile]) -> Report:
        """Raises CannotWriteError; VACUUM removes the data files that were complete by then, since no commit adds them.
        An unexpected error is raised with a note that names the files that may have caused it."""
        with (
            add_file_names("reading", lambda: (file.path for file in files), expected_errors=(CannotWriteError,)),
            self._deferred,
            self._pipeline() as shared,
        ):
            for fetch in fetch_files(self._store, files, self._fetch_ahead):
                self._report.outcomes.append(self._outcome(fetch, shared))
            self._report.data_files += shared.finish()
            self._report.unknown.merge(shared.unknown)
            self._report.misfits.merge(shared.misfits)
            self._report.deferred = self._deferred.finish()
            self._report.deferred_bytes, self._report.undecided = self._deferred.total_bytes, self._deferred.undecided
        took = self._watch.secs()
        self._report.secs, self._report.write_secs = took.total, took.write
        return self._report

    def _pipeline(self, pool: ThreadPoolExecutor | None = None) -> RecordPipeline:
        return RecordPipeline(
            self._format,
            self._provenance,
            self._new_writer(),
            self._deferred,
            self._watch,
            pool,
            self._parsers,
            self._checker,
        )

    def _outcome(self, fetch: FileFetch, shared: RecordPipeline) -> Outcome:
        """Send the file's records to a pipeline, and return what became of the file."""
        progress = FileProgress(fetch.file)
        expected_errors = (FileFault, BlizzardError, CannotWriteError)
        with (
            ExitStack() as stack,
            add_file_names("reading", lambda: (fetch.file.path,), expected_errors=expected_errors),
        ):
            file = _FileRecords(self, progress, shared, stack)
            try:
                if self._outage is not None:
                    raise self._outage
                reader = fetch.enter(stack)
                progress.begin(reader.info)
                self._read_parts(self._file_parts(reader, progress.task_file, stack), file, progress)
                self._report.data_files += file.finish()
                if file.own_pipeline is not None:
                    self._report.unknown.merge(file.own_pipeline.unknown)
                    self._report.misfits.merge(file.own_pipeline.misfits)
                return progress.outcome()
            except FileFault as fault:
                return progress.outcome(fault.stage, fault.reason)
            except BlizzardError as error:
                # The outage fails the whole batch, so the remaining files need not go through all their retries.
                self._outage = error if isinstance(error, StorageUnavailable) else None
                return progress.outcome(Stage.DOWNLOAD, _reason(error), _failure_kind(error))

    def _file_parts(self, reader: ObjectReader, file: TaskFile, stack: ExitStack) -> FileParts:
        """Raises FileFault for a zip whose directory cannot be read."""
        if file.given:

            def text(raw: Readable, size: int, stack: ExitStack) -> FileContent:
                return self._content(file, raw, size, "none", stack)

            return GivenRecords(self._format, file.given, text)
        compression, size = self._compressions.of(file.path), reader.info.size
        if compression != ZIP:
            content = self._content(file, reader, size, compression, stack)
            return SingleFile(self._format, content, self._formats)
        from spark_job.formats.zip_archive import ZipArchive  # few sources have one
        from spark_job.tasks.zip_members import ZipMembers

        def member(name: str, raw: Readable, size: int, stack: ExitStack) -> FileContent:
            return self._content(file, raw, size, self._compressions.of_member(file.path, name), stack)

        content = self._content(file, reader, size, "none", stack)
        try:
            archive = ZipArchive(content.random_access(), self._settings.limits)
        except FileFault as fault:
            raise explained(fault, content, {*self._formats, ZIP}) from fault
        return ZipMembers(self._format, self._formats, archive, member)

    def _content(self, file: TaskFile, raw: Readable, size: int, compression: str, stack: ExitStack) -> FileContent:
        limits, slice_bytes = self._settings.limits, file.slice_bytes
        return FileContent(
            file.path, raw, size=size, compression=compression, limits=limits, slice_bytes=slice_bytes, stack=stack
        )

    def _read_parts(self, source: FileParts, file: "_FileRecords", progress: "FileProgress") -> None:
        """The part of the file's records that this batch takes."""
        skip_records = progress.task_file.skip_records
        progress.records = skip_records
        for part in source.parts(skip_records=skip_records):
            wanted = wanted_of(part, progress.task_file.records)
            if wanted:
                file.add(part)
            progress.taken += wanted
            progress.records = part.end
            if progress.slice_is_over(source.bytes_read):
                progress.finished = False
                return

    def file_pipeline(self, stack: ExitStack) -> RecordPipeline:
        """A pipeline for one file that is too large to buffer. Its data files contain nothing else, and are deleted if
        the file fails."""
        pool = ThreadPoolExecutor(self._parsers, thread_name_prefix="parse") if self._parsers > 1 else None
        if pool is not None:
            stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        return stack.enter_context(self._pipeline(pool))

    def refuse(self, where: RecordRange, reason: str) -> None:
        """A member of a zip. Raises CannotWriteError."""
        self._deferred.add(where, where.first_record, b"", reason)

    @property
    def held_bytes(self) -> int:
        return self._settings.held_bytes


class _FileRecords:
    """One file's records: buffered until the whole file is read without a fault, or in a pipeline of their own."""

    def __init__(self, task: TaskReader, progress: "FileProgress", shared: RecordPipeline, stack: ExitStack) -> None:
        self._task = task
        self._progress = progress
        self._shared = shared
        self._stack = stack
        self._buffered: list[tuple[RecordRange, Block]] = []
        self._buffered_bytes = 0
        self.own_pipeline: RecordPipeline | None = None
        """Of a file that is too large to buffer."""

    def add(self, part: Part) -> None:
        """Raises CannotWriteError."""
        if isinstance(part, RefusedMember):
            self._task.refuse(self._range(part, 1, part.name), part.reason)
            return
        block = part.block
        self._buffered.append((self._range(part, block.count, part.member), block))
        self._buffered_bytes += block.size_bytes
        if self.own_pipeline is None and self._buffered_bytes > self._task.held_bytes:
            self.own_pipeline = self._task.file_pipeline(self._stack)
        if self.own_pipeline is not None:
            self._send_to(self.own_pipeline)

    def _range(self, part: Part, count: int, member: str | None) -> RecordRange:
        file, info = self._progress.task_file, self._progress.info
        place = file.path, info.etag, info.modified_ts, file.partitions, part.first_record
        return RecordRange(*place, count, member, self._progress.wanted)

    def finish(self) -> list[DataFile]:
        """The data files that contain this file alone, if there are any."""
        self._send_to(self.own_pipeline or self._shared)
        return self.own_pipeline.finish() if self.own_pipeline is not None else []

    def _send_to(self, pipeline: RecordPipeline) -> None:
        self._buffered.reverse()
        while self._buffered:
            pipeline.add(*self._buffered.pop())


@dataclass(slots=True)
class FileProgress:
    """How far a file has been read."""

    task_file: TaskFile
    info: ObjectInfo = field(init=False)
    records: int = 0
    taken: int = 0
    """Records since `skip_records` that are wanted."""
    finished: bool = True
    slice_started_at: int | None = None
    wanted: frozenset[int] | None = field(init=False)

    def __post_init__(self) -> None:
        # The rest of a file in progress that cannot be opened is dead-lettered with the content that it belongs to.
        self.info = self.task_file.known_info
        self.wanted = None if self.task_file.records is None else frozenset(self.task_file.records)

    def begin(self, info: ObjectInfo) -> None:
        """`info`: of the opened object. Raises FileFault if it must not be read.

        If a file in progress was overwritten, the outcome has the etag of its old content, and nothing of the new
        content is read. An event or the late sweep reports the new content later.
        """
        wanted = self.task_file
        if wanted.expected_etag is not None and info.etag != wanted.expected_etag:
            raise FileFault(Stage.DOWNLOAD, _changed(wanted, info.etag))
        self.info = info
        if wanted.refusal is not None:
            raise FileFault(Stage.PARSE, wanted.refusal)

    def slice_is_over(self, bytes_read: int) -> bool:
        """Whether this slice has had its share of the bytes. Skipping the committed records does not count."""
        if self.slice_started_at is None:
            self.slice_started_at = bytes_read if self.task_file.skip_records else 0
        slice_bytes = self.task_file.slice_bytes
        return slice_bytes is not None and bytes_read - self.slice_started_at >= slice_bytes

    def outcome(
        self, stage: Stage | None = None, error: str | None = None, failure_kind: FailureKind | None = None
    ) -> Outcome:
        if error is not None and failure_kind is None:
            error += _committed_before(self.task_file, error)
        return Outcome(
            path=self.task_file.path,
            etag=self.info.etag,
            size=self.info.size,
            rows=self.taken,
            records_read=self.records,
            finished=self.finished or error is not None,
            stage=stage,
            error=error,
            failure_kind=failure_kind,
        )


def _committed_before(file: TaskFile, error: str) -> str:
    """What a reason has to add if earlier slices of the file are in the table."""
    if not file.skip_records or error.startswith(_CHANGED):
        return ""
    return f"; its first {file.skip_records:,} records were committed before, and their rows stay"


def _changed(file: TaskFile, etag: str) -> str:
    if not file.skip_records:
        return f"it changed: expected the content with etag {file.expected_etag}, found {etag}"
    return (
        f"{_CHANGED}: {file.skip_records} records of etag {file.expected_etag} are committed, and it "
        f"now has etag {etag}. The rest of the old content was not ingested. The new content is handled as an "
        "overwritten or late file once an event or the late sweep reports it."
    )


def _reason(error: BlizzardError) -> str:
    return "gone: there is no such object" if isinstance(error, NotFound) else str(error)


def _failure_kind(error: BlizzardError) -> FailureKind | None:
    if isinstance(error, StorageUnavailable):
        return FailureKind.TRANSIENT
    if isinstance(error, CredentialsRefused | BucketMissing | StorageBroken):
        return FailureKind.SYSTEMIC
    return FailureKind.DENIED if isinstance(error, AccessDenied) else None


def checker_of(rules: RowRules | None) -> "RowChecker | None":
    if rules is None or not rules.need_tasks:
        return None
    from spark_job.expressions.row_checker import RowChecker  # evaluates expressions, which few tables have

    return RowChecker(rules)
