"""Values that somebody has changed in one of two tables, and that the other one does not have.

Only rows of files that have rows in data files which may have such values are looked at, in both tables. A row is known
by its file, etag and number. Of each there is a checksum, on the local disk, in parts by file.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.table_rows import LOST, RowsPlan
from blizzard.state.data_files import files_of_others
from blizzard.table.data_rows import DataRows
from blizzard.table.row_runs import NO_ROW
from blizzard.table.row_values import checksums, hashes
from blizzard.table.source_column import source_field
from blizzard.table.table_columns import TableColumns, table_columns
from spark_job.rebuild.stopped import Check

PART_ROWS = 200_000
"""About as many are compared at a time."""
MAX_PARTS = 256
"""Each is an open file."""
_SCHEMA = pa.schema({"file": pa.string(), "etag": pa.string(), "row": pa.int64(), "checksum": pa.uint64()})
_KEY = ["file", "etag", "row"]


@dataclass(frozen=True, slots=True)
class SourceValues:
    """The rows of a source in one version of a table."""

    plan: RowsPlan
    version: int
    check: Check

    def suspects(self) -> list[int]:
        """The numbers of data files that may have changed values."""
        paths = [unquote(file.path) for file in self.plan.files]
        found = files_of_others(self.plan.source.state, self.version, paths)
        return [number for number, path in enumerate(paths) if path in found]

    def files(self, number: int) -> pa.Array:
        """The hashes of the paths of files that have rows in a data file."""
        self.check()
        found = [_hashed(rows["file"]).unique() for rows in self.plan.rows(number, "source", "file")]
        return _joined(found)

    def columns(self) -> TableColumns:
        return table_columns(self.plan.source.table_uri, self.version, self.plan.source.s3)

    def rows(self, wanted: pa.Array, columns: TableColumns, names: Sequence[str]) -> Iterator[pa.Table]:
        """Of files with these hashes, each with the checksum of the columns `names`."""
        for number, file in enumerate(self.plan.files):
            if not pc.any(pc.is_in(self.files(number), wanted)).as_py():
                continue
            path, store = unquote(file.path), self.plan.source.state
            deleted = self.plan.deleted.get(path, ())
            with suppress(*LOST):
                data = DataRows(store, file, columns.schema, columns.partitions.get(path, {}), deleted)
                for rows in data.batches():
                    self.check()
                    yield self._with_checksums(rows, wanted, names)

    def _with_checksums(self, rows: pa.Table, wanted: pa.Array, names: Sequence[str]) -> pa.Table:
        whole = rows["_source"].combine_chunks()
        is_own = pc.equal(source_field(whole, "source"), self.plan.source.identity.source_id)
        is_wanted = pc.is_in(hashes(pc.fill_null(source_field(whole, "file"), "")), wanted)
        rows = rows.filter(pc.and_(pc.fill_null(is_own, False), is_wanted))
        whole = rows["_source"].combine_chunks()
        key = [
            pc.fill_null(source_field(whole, name), missing)
            for name, missing in zip(_KEY, ("", "", NO_ROW), strict=True)
        ]
        values = {name: rows[name].combine_chunks() for name in names if name in rows.column_names}
        sums = checksums(values) if values else pa.repeat(pa.scalar(0, pa.uint64()), rows.num_rows)
        return pa.table([*key, sums], schema=_SCHEMA)


def changed_values(old: SourceValues, new: SourceValues, folder: Path) -> tuple[dict[str, int], list[str]]:
    """How many rows of each file have other values in one table than in the other, by path; and the columns that were
    not compared. `folder`: one that there is not."""
    suspects = old.suspects(), new.suspects()
    wanted = _joined([side.files(each) for side, found in zip((old, new), suspects, strict=True) for each in found])
    if not len(wanted):
        return {}, []
    columns = old.columns(), new.columns()
    names, left_out = compared_columns(*columns)
    rows = sum(file.rows or PART_ROWS for file in old.plan.files)
    parts = min(MAX_PARTS, 1 << max(0, rows // PART_ROWS).bit_length())
    folders = folder / "old", folder / "new"
    for side, own, into in zip((old, new), columns, folders, strict=True):
        _divide(side.rows(wanted, own, names), into, parts)
    found: dict[str, int] = {}
    for number in range(parts):
        old.check()
        found |= _different(*(_part(each, number) for each in folders))
    return found, left_out


def compared_columns(old: TableColumns, new: TableColumns) -> tuple[list[str], list[str]]:
    """Those that can be compared, and those that cannot: they have another type on purpose, or Spark's writer fills
    them. One that only one table has is null in the other."""
    names, left_out = list[str](), list[str]()
    for name in sorted({*old.schema.names, *new.schema.names} - {"_source"}):
        kinds = [side.schema.field(name).type for side in (old, new) if name in side.schema.names]
        is_filled = name in old.filled | new.filled
        (left_out if is_filled or not _is_alike(kinds[0], kinds[-1]) else names).append(name)
    return names, left_out


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether equal values of both types have the same checksum."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        shared = {field.name for field in one} & {field.name for field in other}
        return all(_is_alike(one.field(name).type, other.field(name).type) for name in shared)
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _is_alike(one.value_type, other.value_type)
    if pa.types.is_map(one) and pa.types.is_map(other):
        return _is_alike(one.key_type, other.key_type) and _is_alike(one.item_type, other.item_type)
    return bool(one == other) or (pa.types.is_integer(one) and pa.types.is_integer(other))


def _divide(rows: Iterable[pa.Table], folder: Path, parts: int) -> None:
    """By file, with the rows of one in one part. `parts`: a power of two."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_stream(_file(folder, number), _SCHEMA)) for number in range(parts)]
        for each in rows:
            number = pc.bit_wise_and(_hashed(each["file"]), parts - 1)
            for part in number.unique().to_pylist():
                writers[part].write_table(each.filter(pc.equal(number, part)))


def _part(folder: Path, number: int) -> pa.Table:
    with pa.ipc.open_stream(pa.OSFile(_file(folder, number))) as stream:
        return stream.read_all()


def _different(old: pa.Table, new: pa.Table) -> dict[str, int]:
    both = old.join(new, _KEY, join_type="inner", right_suffix="_new")
    changed = both.filter(pc.not_equal(both["checksum"], both["checksum_new"]))
    counts = changed.group_by("file").aggregate([([], "count_all")])
    return dict(zip(counts["file"].to_pylist(), counts["count_all"].to_pylist(), strict=True))


def _file(folder: Path, number: int) -> str:
    return str(folder / f"{number}.arrow")


def _hashed(paths: pa.ChunkedArray | pa.Array) -> pa.Array:
    whole = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    return hashes(pc.fill_null(whole, ""))


def _joined(found: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.int64()), *found]).unique()
