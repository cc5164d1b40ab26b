"""A table that has rows of a source, and not the Txn that says which commits of it there were."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from urllib.parse import unquote

from blizzard.errors import DataFileDamaged, NotFound
from blizzard.storage.base import ObjectStore
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.table.active_files import ActiveFiles
from blizzard.table.added_files import AddedFile
from blizzard.table.row_runs import rows_of
from blizzard.table.source_column import SourceColumn

MAX_FILES_READ = 1_000
"""The newest ones: each takes up to three requests."""
AT_ONCE = 8
TXN_LOST = (
    "the table has rows of this source, and no Txn of it, as after it was copied or rebuilt without its log. Runs "
    "refuse it, and only the rows tell what is ingested: `blizzard rebuild` makes Txn and state anew from them; "
    "docs/runbook.md#a-table-without-its-txn"
)


def holds_rows(store: ObjectStore, active: ActiveFiles, source_id: str) -> bool:
    """Whether the table has a row of this source, as far as that is known. The log's statistics say so; where they do
    not, data files are read, up to MAX_FILES_READ. One that cannot be read counts as empty, and so do those that nobody
    reads, and a table whose files are not known."""
    candidates = [
        (file, active.deleted.get(unquote(file.path), ())) for file in active.files if file.may_hold(source_id)
    ]
    if any(file.only_source == source_id and not deleted for file, deleted in candidates):
        return True
    return _any_has_row(store, source_id, islice(candidates, MAX_FILES_READ))


def _any_has_row(store: ObjectStore, source_id: str, files: Iterable[tuple[AddedFile, Sequence[int]]]) -> bool:
    found: list[AddedFile] = []

    def look(file: AddedFile, deleted: Sequence[int]) -> None:
        if _has_row(store, file, source_id, deleted):
            found.append(file)

    with ParallelCalls(AT_ONCE, name="lost-txn") as calls:
        for file, deleted in files:
            if found:
                break
            calls.submit(partial(look, file, deleted))
    return bool(found)


def _has_row(store: ObjectStore, file: AddedFile, source_id: str, deleted: Sequence[int]) -> bool:
    with suppress(NotFound, DataFileDamaged):
        column = SourceColumn(store, file)
        return any(rows.num_rows for rows in rows_of(column, source_id, ("source",), deleted))
    return False
