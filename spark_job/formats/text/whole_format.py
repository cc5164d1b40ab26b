"""Text of which each file is one record, with one column, `value`."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from blizzard.state.dead_letters import Stage
from spark_job.formats.deferred import all_refused
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed
from spark_job.formats.reading import BOM
from spark_job.formats.whole_file import FileBlock, whole_file


class WholeTextFormat:
    """An empty file is a record, too. Line ends stay as they are."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema = schema
        self._limits = limits

    def blocks(self, content: Content, *, first_record: int) -> Iterator[FileBlock]:
        for block in whole_file(content, self._limits, first_record):
            data = block.data.removeprefix(BOM)
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise FileFault(Stage.PARSE, f"not UTF-8 at byte {error.start}: {error.reason}") from error
            yield FileBlock(data)

    def parse(self, blocks: Sequence[FileBlock]) -> Parsed:
        values = pa.array([block.data.decode() for block in blocks], pa.string())
        return Parsed(pa.table([values], names=["value"]), None, (), ())

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)
