"""What both engines have settled of the same files: by the ledger that their jobs keep, and by the table's own rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import open_ledger
from blizzard.ledger.merge import MergeInput
from blizzard.ledger.run import Run
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.identity import SourceIdentity
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.auto import AutoTable
from spark_job.engines.local.table import LocalTable
from spark_job.wiring import file_table, source_parts
from tests.proof.campaign import Failed, Fault
from tests.spark.engine_lake import EngineLake

LEDGER_LACKS = "the ledger of the local engine lacks a file"
OTHER_ETAG = "the ledger of the local engine has another etag of a file"
TABLE_LACKS = "the local engine does not find a file's rows in the table"
VARIANTS: Mapping[str, Fault] = {
    LEDGER_LACKS: Fault("the ledgers have other files", "^the engines differ in ledger:"),
    OTHER_ETAG: Fault("the ledgers have other entries", "^the engines differ in ledger:"),
    TABLE_LACKS: Fault("the tables tell of other files", "^the engines differ in files of the table's rows:"),
}


def in_ledger(lake: EngineLake) -> list[str]:
    """Its entries, whichever runs and receipts have them."""
    checkpoint = lake.state_beside()
    ledger = open_ledger(LocalStore(lake.table), _identity(checkpoint), checkpoint, with_filters=False)
    if ledger.gaps:
        raise Failed(f"the ledger of {lake.chosen} lacks commits: {ledger.gaps}", [])
    return _texts(ledger.scan())


def runs_of(lake: EngineLake) -> int:
    return len(lake.state_beside().ledger)


def in_bases(lake: EngineLake) -> dict[str, Any]:
    """Watermarks and files of the checkpoint, most of which its bases may have."""
    settled = lake.state_beside().settled
    return {"watermarks": {**settled.watermarks}, "files": {**settled.files}}


def in_rows(lake: EngineLake) -> list[str]:
    """The entries that a job without runs and receipts gets from the table's rows."""
    [(pipeline, source)] = lake.config().sources()
    parts = source_parts(pipeline, source, engine=lake.engine(), s3=S3Settings(), log=lambda *_, **__: None)
    all_commits = SequenceRange(0, lake.state_beside().sequence)
    return sorted(_texts(file_table(parts, source.record_ddl).files_of_commits(all_commits)))


def _identity(checkpoint: Checkpoint) -> SourceIdentity:
    name = f"{checkpoint.pipeline}_{checkpoint.source}"
    return SourceIdentity(checkpoint.pipeline, checkpoint.source, f"_blizzard/{name}")


def _texts(entries: Iterable[LedgerEntry]) -> list[str]:
    return [str(entry) for entry in entries]


# -- what is broken on purpose


class _Changed(MergeInput):
    """Its last entry is changed."""

    __slots__ = ("_change",)

    def __init__(self, source: MergeInput, change: Callable[[LedgerEntry], Iterable[LedgerEntry]]) -> None:
        super().__init__(source.runs, source.recent)
        object.__setattr__(self, "_change", change)

    def entries(self) -> Iterator[LedgerEntry]:
        found = [*super().entries()]
        return iter([*found[:-1], *(changed for last in found[-1:] for changed in self._change(last))])


def _with_each_run(change: Callable[[LedgerEntry], Iterable[LedgerEntry]]) -> Any:
    """Only of jobs that commit with the local engine if they can."""
    whole = LedgerKeeper._write_merged

    def write_merged(self: LedgerKeeper, source: MergeInput) -> Run:
        is_local = isinstance(self._ask_table.__self__._engine, AutoTable)  # type: ignore[attr-defined]
        return whole(self, _Changed(source, change) if is_local else source)

    return patch.object(LedgerKeeper, "_write_merged", write_merged)


def _lose_rows() -> Any:
    whole = LocalTable.files_of_commits

    def files_of_commits(self: LocalTable, sequences: SequenceRange) -> Sequence[LedgerEntry]:
        return whole(self, sequences)[1:]

    return patch.object(LocalTable, "files_of_commits", files_of_commits)


BREAKS: Mapping[str, Callable[[], Any]] = {
    LEDGER_LACKS: lambda: _with_each_run(lambda last: ()),
    OTHER_ETAG: lambda: _with_each_run(lambda last: [last._replace(etag=f"{last.etag}0")]),
    TABLE_LACKS: _lose_rows,
}
