"""pyarrow's JSON reader with a schema of Spark's types, and the row at which it failed."""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql.types import StructType

from spark_job.formats.json.convert import reading_type

_ROW = re.compile(r" in row (\d+)")
_COLUMN = re.compile(r"Column\(/([^/()]+)\) ")

_UNEXPECTED = "unexpected field"

# A column that no record has: records without any column of the schema are counted through it.
_ABSENT = "_blizzard_absent"


class ReadFailed(Exception):
    """`row`: at which value of the block reading failed; `column`: whose value has another type. None if unknown.
    `unexpected`: whether a key without a column was the reason."""

    def __init__(self, row: int | None, column: str | None = None, *, unexpected: bool = False) -> None:
        super().__init__(row, column)
        self.row = row
        self.column = column
        self.unexpected = unexpected


class ArrowJsonReader:
    """Reads a stream of JSON objects strictly: a value of another type than its column fails the whole block. Threads
    may share it.

    Keys without a column are an error as long as there were none, which costs nothing. Then they are ignored, and the
    caller has to look for them. Arrow could read them as columns, too; but each takes memory for every row.
    """

    def __init__(self, schema: StructType, *, has_other_keys: bool = False) -> None:
        """`has_other_keys`: that objects have keys without a column is expected from the start."""
        self._schema = schema
        self._last: dict[str, tuple[Mapping[str, str], pj.ParseOptions]] = {}
        self._has_other_keys = has_other_keys

    def empty(self, styles: Mapping[str, str]) -> pa.Table:
        """The result for no objects."""
        return self._options(styles, "ignore").explicit_schema.empty_table()

    def _options(self, styles: Mapping[str, str], unexpected: str) -> pj.ParseOptions:
        last = self._last.get(unexpected)
        if last is None or last[0] != styles:
            self._last[unexpected] = last = (dict(styles), self._parse_options(styles, unexpected))
        return last[1]

    def _parse_options(self, styles: Mapping[str, str], unexpected: str) -> pj.ParseOptions:
        fields = [pa.field(f.name, reading_type(f.dataType, styles, f.name)) for f in self._schema]
        wanted = pa.schema(fields or [pa.field(_ABSENT, pa.string())])
        return pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior=unexpected)

    def read_all(self, block: pa.Buffer | bytes, styles: Mapping[str, str]) -> tuple[pa.Table, bool]:
        """With whether the objects may have keys without a column. Raises ReadFailed."""
        if not self._has_other_keys:
            try:
                return self.read(block, styles, unexpected="error"), False
            except ReadFailed as failed:
                if not failed.unexpected:
                    raise
                self._has_other_keys = True
        return self.read(block, styles), True

    def read(self, block: pa.Buffer | bytes, styles: Mapping[str, str], *, unexpected: str = "ignore") -> pa.Table:
        """`styles`: as `reading_type` takes them. Raises ReadFailed."""
        # One piece and one thread: a task has one core, and parallel pieces cost more than they save.
        how = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            return pj.read_json(
                pa.BufferReader(block), read_options=how, parse_options=self._options(styles, unexpected)
            )
        except pa.ArrowInvalid as error:
            row, column = _ROW.search(str(error)), _COLUMN.search(str(error))
            is_unexpected = _UNEXPECTED in str(error)
            raise ReadFailed(
                int(row[1]) if row else None, column[1] if column else None, unexpected=is_unexpected
            ) from error


class WatchingReader:
    """Reads parts of one block, without keys that no column is for. `saw_unexpected`: whether there may be such keys in
    what it accepted."""

    def __init__(self, reader: ArrowJsonReader, styles: Mapping[str, str]) -> None:
        self._reader = reader
        self._styles = styles
        self.saw_unexpected = False

    def read(self, text: pa.Buffer | bytes) -> pa.Table:
        """Raises ReadFailed."""
        table, may_have_other_keys = self._reader.read_all(text, self._styles)
        self.saw_unexpected |= may_have_other_keys
        return table
