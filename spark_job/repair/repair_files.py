"""The loop of a source that commits what an operator wants to have read once more, put together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from blizzard.log import Log
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from spark_job.loop.files.settings import FileSettings
from spark_job.loop.ingest import Ingest
from spark_job.ports.reader import FileRows, Reader
from spark_job.ports.stopwatch import Stopwatch
from spark_job.ports.table import FileTable
from spark_job.repair.settler import Settler
from spark_job.repair.source import RepairSource
from spark_job.repair.work import Work

R = TypeVar("R", bound=FileRows)


@dataclass(frozen=True, slots=True)
class Repair:
    """Of one source."""

    ingest: Ingest
    settler: Settler

    def run(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Until each item has a result, or until `stopping` is true between two commits. Raises what `Ingest.drain`
        does; what was committed stays, and the same can be repeated."""
        try:
            self.ingest.drain(stopping)
        finally:
            self.settler.settle_rest()


def repair_files(
    identity: SourceIdentity,
    settings: FileSettings,
    *,
    work: Work,
    table: FileTable[R],
    reader: Reader[R],
    given_reader: Reader[R],
    state: ObjectStore,
    files: ObjectStore,
    clock: Callable[[], float],
    watch: Stopwatch,
    new_id: Callable[[], str],
    sleep: Callable[[float], None],
    log: Log,
) -> Repair:
    """As `ingest_files`. `given_reader`: of records that are given as JSON texts."""
    common: dict[str, Any] = {"table": table, "clock": clock, "watch": watch, "new_id": new_id, "log": log}
    settler = Settler(identity, work, state=state, clock=clock, new_id=new_id, log=log)
    source = RepairSource(
        identity,
        settings,
        work=work,
        settler=settler,
        given_reader=given_reader,
        reader=reader,
        state=state,
        files=files,
        **common,
    )
    return Repair(Ingest(identity, settings, source=source, sleep=sleep, **common), settler)
