"""All values of the rows of some files, as one version of a table has them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.given_rows import RowOfCommit
from blizzard.errors import PermanentError
from blizzard.storage.base import ObjectStore
from blizzard.table.active_files import files_of
from blizzard.table.data_rows import DataRows
from blizzard.table.source_column import source_field
from blizzard.table.table_columns import columns_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

READER_FEATURES = frozenset({"deletionVectors", "timestampNtz", "variantType", "variantType-preview"})
"""Of tables whose data files mean what they say."""
Key = tuple[str, str, int]
"""File, etag and row number."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """`values`: by column. `sequence`: of its commit; -1 if the row does not say."""

    values: Mapping[str, Any]
    sequence: int

    def of_commit(self, key: Key) -> RowOfCommit:
        return RowOfCommit(*key, self.sequence)


Rows = dict[Key, StoredRow]


def refuse_unreadable(table: "DeltaTable") -> None:
    """Raises PermanentError for a table whose rows cannot be read here."""
    if unknown := sorted({*(table.protocol().reader_features or ())} - READER_FEATURES):
        raise PermanentError(
            f"the table cannot be read: it has the features {', '.join(unknown)}; expected none but "
            f"{', '.join(sorted(READER_FEATURES))}. Compare its rows with the files by Spark."
        )


def rows_of_files(store: ObjectStore, table: "DeltaTable", source_id: str, paths: Collection[str]) -> Rows:
    """`store`: of the table. A row that the table has twice is there once. Raises PermanentError, errors of storage,
    and what deltalake raises."""
    refuse_unreadable(table)
    active, columns = files_of(table), columns_of(table)
    if active.problem is not None:
        raise PermanentError(active.problem)
    wanted, found = pa.array(paths, pa.string()), Rows()
    for file in active.files:
        if file.may_hold(source_id) and file.may_have(paths):
            path = unquote(file.path)
            deleted = active.deleted.get(path, ())
            data = DataRows(store, file, columns.schema, columns.partitions.get(path, {}), deleted)
            for rows in data.batches(paths):
                _add(found, rows, source_id, wanted)
    return found


def _add(found: Rows, rows: pa.Table, source_id: str, wanted: pa.Array) -> None:
    whole = rows["_source"].combine_chunks()
    is_own = pc.fill_null(pc.equal(source_field(whole, "source"), source_id), False)
    rows = rows.filter(pc.and_(is_own, pc.is_in(source_field(whole, "file"), wanted)))
    for row in rows.to_pylist():
        source = row.pop("_source")
        sequence = -1 if source["sequence"] is None else source["sequence"]
        found[source["file"], source["etag"], source["row"]] = StoredRow(row, sequence)
