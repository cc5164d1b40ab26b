"""Binary: each file is one record, with its bytes and their number."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.protocol import Content, Limits, Parsed
from spark_job.formats.whole_file import FileBlock, whole_file


class BinaryFormat:
    """An empty file is a record, too."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits

    def blocks(self, content: Content, *, first_record: int) -> Iterator[FileBlock]:
        yield from whole_file(content, self._limits, first_record)

    def parse(self, blocks: Sequence[FileBlock]) -> Parsed:
        contents = [block.data for block in blocks]
        columns = [pa.array(contents, pa.binary()), pa.array(map(len, contents), pa.int64())]
        return Parsed(pa.table(columns, names=["content", "length"]), None, (), ())

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)
