"""pyarrow's JSON reader with a schema of Spark's types, and the row at which it failed."""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql.types import StructType

from spark_job.formats.ndjson.convert import reading_type

_ROW = re.compile(r" in row (\d+)")
_COLUMN = re.compile(r"Column\(/([^/()]+)\) ")

# A column that no record has: records without any column of the schema are counted through it.
_ABSENT = "_blizzard_absent"


class ReadFailed(Exception):
    """`row`: at which value of the block reading failed; `column`: whose value has another type. None if unknown."""

    def __init__(self, row: int | None, column: str | None = None) -> None:
        super().__init__(row, column)
        self.row = row
        self.column = column


class ArrowJsonReader:
    """Reads a stream of JSON objects strictly: a value of another type than its column fails the whole block. Threads
    may share it."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._last: tuple[Mapping[str, str], pj.ParseOptions] = ({}, self._parse_options({}))

    def empty(self, styles: Mapping[str, str]) -> pa.Table:
        """The result for no objects."""
        return self._options(styles).explicit_schema.empty_table()

    def _options(self, styles: Mapping[str, str]) -> pj.ParseOptions:
        last = self._last
        if last[0] != styles:
            self._last = last = (dict(styles), self._parse_options(styles))
        return last[1]

    def _parse_options(self, styles: Mapping[str, str]) -> pj.ParseOptions:
        fields = [pa.field(f.name, reading_type(f.dataType, styles, f.name)) for f in self._schema]
        wanted = pa.schema(fields or [pa.field(_ABSENT, pa.string())])
        return pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")

    def read(self, block: pa.Buffer | bytes, styles: Mapping[str, str]) -> pa.Table:
        """`styles`: as `reading_type` takes them. Raises ReadFailed."""
        # One piece and one thread: a task has one core, and parallel pieces cost more than they save.
        how = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            return pj.read_json(pa.BufferReader(block), read_options=how, parse_options=self._options(styles))
        except pa.ArrowInvalid as error:
            row, column = _ROW.search(str(error)), _COLUMN.search(str(error))
            raise ReadFailed(int(row[1]) if row else None, column[1] if column else None) from error
