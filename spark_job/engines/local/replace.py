"""Replaces the rows of overwritten files: their rows go, other rows of the same data files are written again, and the
new rows come, all in one commit."""

import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.pandas.types import to_arrow_type

from blizzard.storage.base import ObjectStore
from spark_job.engines.local.transaction import RemovedFile, describe
from spark_job.table.stats_columns import stats_columns
from spark_job.write.parquet_files import BufferBudget, DataFile, DataFileWriter, TableLayout

BUFFER_BYTES = 64 << 20
SPARKS_UNIT = "us"
"""Spark writes timestamps as INT96, which pyarrow would read as nanoseconds: only years from 1678 to 2261 fit."""


@dataclass(slots=True)
class Replacement:
    """The files to add and to remove."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[RemovedFile] = field(default_factory=list)


def replace_rows(
    table: DeltaTable,
    store: ObjectStore,
    staged: Sequence[DataFile],
    *,
    source_id: str,
    paths: Collection[str],
    target_file_bytes: int,
    clock: Callable[[], float],
) -> Replacement:
    """Reads one data file at a time, and writes new ones. Removes nothing: that is the commit's."""
    description = describe(table)
    schema = pa.schema([pa.field(f.name, to_arrow_type(f.dataType)) for f in description.schema.fields])
    layout = TableLayout(
        "",
        description.partition_by,
        tuple(stats_columns(description)),
        description.string_prefix_chars,
        target_file_bytes,
    )
    found = Replacement()
    writer = DataFileWriter(
        store, layout, schema, buffer=BufferBudget(BUFFER_BYTES), new_name=lambda: uuid.uuid4().hex, clock=clock
    )
    try:
        for file in staged:
            writer.write(_with_all_columns(pq.read_table(BytesIO(store.get(file.path))), schema))
        for action in _candidates(table, paths):
            kept = _others_rows(store, action, schema, description.partition_by, source_id, paths)
            if kept is not None:
                found.removed.append(action.removed)
                if kept.num_rows:
                    writer.write(kept)
        found.added = writer.close()
    except BaseException:
        writer.try_to_discard()
        raise
    return found


@dataclass(frozen=True, slots=True)
class _Action:
    removed: RemovedFile
    partitions: dict[str, pa.Scalar]


def _candidates(table: DeltaTable, paths: Collection[str]) -> Iterator[_Action]:
    """The data files that, by their statistics, may have rows of these files."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = actions.column_names
    low, high = min(paths), max(paths)
    for at in range(actions.num_rows):
        first, last = (
            actions[name][at].as_py() if name in names else None for name in ("min._source.file", "max._source.file")
        )
        if (first is None or first <= high) and (last is None or last >= low):
            values = {n.removeprefix("partition."): actions[n][at] for n in names if n.startswith("partition.")}
            texts = {name: None if value.as_py() is None else str(value.as_py()) for name, value in values.items()}
            removed = RemovedFile(actions["path"][at].as_py(), actions["size_bytes"][at].as_py(), texts)
            yield _Action(removed, values)


def _others_rows(
    store: ObjectStore,
    action: _Action,
    schema: pa.Schema,
    partition_by: Sequence[str],
    source_id: str,
    paths: Collection[str],
) -> pa.Table | None:
    """The rows of the data file that stay, with all columns; None if it has none that go."""
    data = BytesIO(store.get(action.removed.path))
    if "_source" not in pq.read_schema(data).names:  # from before the table had it
        return None
    source = pq.read_table(data, columns=["_source"], coerce_int96_timestamp_unit=SPARKS_UNIT)["_source"]
    file, owner = (pc.struct_field(source, name) for name in ("file", "source"))
    goes = pc.fill_null(pc.and_(pc.equal(owner, source_id), pc.is_in(file, pa.array([*paths], pa.string()))), False)
    if not pc.any(goes).as_py():
        return None
    rows = pq.read_table(data, coerce_int96_timestamp_unit=SPARKS_UNIT).filter(pc.invert(goes))
    for name in partition_by:
        rows = rows.append_column(name, pa.repeat(action.partitions[name], rows.num_rows))
    return _with_all_columns(rows, schema)


def _with_all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """In the table's order; columns that the rows lack are null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
