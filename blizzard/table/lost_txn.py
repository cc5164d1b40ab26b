"""A table that has rows of a source, and not the Txn that says which commits of it there were."""

from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import unquote

from blizzard.errors import DataFileDamaged, NotFound
from blizzard.storage.base import ObjectStore
from blizzard.table.active_files import ActiveFiles
from blizzard.table.added_files import AddedFile
from blizzard.table.row_runs import rows_of
from blizzard.table.source_column import SourceColumn

TXN_LOST = (
    "the table has rows of this source, and no Txn of it, as after it was copied or rebuilt without its log. Runs "
    "refuse it, and only the rows tell what is ingested: `blizzard rebuild` makes Txn and state anew from them; "
    "docs/runbook.md#a-table-without-its-txn"
)


def holds_rows(store: ObjectStore, active: ActiveFiles, source_id: str) -> bool:
    """Whether the table has a row of this source. Nearly always the log's statistics say so; else data files are read,
    one at a time. One that cannot be read counts as empty, and so does a table whose files are not known."""
    candidates = [file for file in active.files if file.may_hold(source_id)]
    candidates.sort(key=lambda file: file.only_source == source_id, reverse=True)
    return any(_has_row(store, file, source_id, active.deleted.get(unquote(file.path), ())) for file in candidates)


def _has_row(store: ObjectStore, file: AddedFile, source_id: str, deleted: Sequence[int]) -> bool:
    if file.only_source == source_id and not deleted:
        return True
    with suppress(NotFound, DataFileDamaged):
        column = SourceColumn(store, file)
        return any(rows.num_rows for rows in rows_of(column, source_id, ("source",), deleted))
    return False
