"""pyarrow's JSON reader with a schema of Spark's types: what it takes, and at which row it stopped."""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql.types import StructType

from spark_job.formats.ndjson.convert import reading_type

_ROW = re.compile(r" in row (\d+)")
_COLUMN = re.compile(r"Column\(/([^/()]+)\) ")

# A column that no record has, so that records without any known column are counted too.
_NOBODY = "_blizzard_nobody"


class ReadFailed(Exception):
    """`row`: which value of the block it stopped at, and `column`: which one of its values was of another kind, if they
    are known."""

    def __init__(self, row: int | None, column: str | None = None) -> None:
        super().__init__(row, column)
        self.row = row
        self.column = column


class JsonReader:
    """Reads a stream of JSON objects, strictly: a value of another kind than its column's fails the whole block.
    Threads may share it."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema
        self._last: tuple[Mapping[str, str], pj.ParseOptions] = ({}, self._made({}))

    def empty(self, styles: Mapping[str, str]) -> pa.Table:
        """What it gives for no objects."""
        return self._options(styles).explicit_schema.empty_table()

    def _options(self, styles: Mapping[str, str]) -> pj.ParseOptions:
        last = self._last
        if last[0] != styles:
            self._last = last = (dict(styles), self._made(styles))
        return last[1]

    def _made(self, styles: Mapping[str, str]) -> pj.ParseOptions:
        fields = [pa.field(f.name, reading_type(f.dataType, styles, f.name)) for f in self._schema]
        wanted = pa.schema(fields or [pa.field(_NOBODY, pa.string())])
        return pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")

    def read(self, block: pa.Buffer | bytes, styles: Mapping[str, str]) -> pa.Table:
        """`styles`: as `reading_type` takes them. Raises ReadFailed."""
        # One piece, one thread: the task has one core, and pieces that run at the same time cost more than they save.
        how = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            return pj.read_json(pa.BufferReader(block), read_options=how, parse_options=self._options(styles))
        except pa.ArrowInvalid as error:
            row, column = _ROW.search(str(error)), _COLUMN.search(str(error))
            raise ReadFailed(int(row[1]) if row else None, column[1] if column else None) from error
