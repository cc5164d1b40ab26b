"""A format for tests: files are read as NDJSON is, and each line is the text of its record."""

from collections.abc import Sequence

from pyspark.sql.types import StringType, StructField, StructType

from spark_job.formats.json.format import NdjsonFormat
from spark_job.formats.lines import LineBlock
from spark_job.formats.protocol import Limits, Parsed
from spark_job.formats.text.format import TextFormat

TEXT_SCHEMA = StructType([StructField("value", StringType())])


class PlainLines(NdjsonFormat):
    """What is written can be compared with what was read, byte by byte."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        super().__init__(TEXT_SCHEMA, limits)
        self._text = TextFormat(TEXT_SCHEMA, limits)

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        return self._text.parse(blocks)
