"""The ingest loop of a source of files, put together."""

from collections.abc import Callable
from typing import TypeVar

from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.files.source import FileSource
from spark_job.loop.ingest import Ingest
from spark_job.ports.reader import FileRows, Reader
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import FileTable

R = TypeVar("R", bound=FileRows)


def ingest_files(
    identity: SourceIdentity,
    settings: FileSettings,
    *,
    table: FileTable[R],
    reader: Reader[R],
    state: ObjectStore,
    files: ObjectStore,
    clock: Callable[[], float],
    watch: Stopwatch,
    new_id: Callable[[], str],
    sleep: Callable[[float], None],
    log: Log,
) -> Ingest:
    """`files` holds the source's files, `state` its manifest and other state. `clock` gives Unix seconds,
    `new_id` a short unique text; `sleep` waits for seconds. `watch` times the turns; the table may share it."""
    source = FileSource(
        identity,
        settings,
        table=table,
        reader=reader,
        state=state,
        files=files,
        clock=clock,
        watch=watch,
        new_id=new_id,
        log=log,
    )
    return Ingest(
        identity,
        settings,
        source=source,
        table=table,
        clock=clock,
        watch=watch,
        new_id=new_id,
        sleep=sleep,
        log=log,
    )
