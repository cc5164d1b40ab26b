"""Lines of text: each line is a record of one column, `value`."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_job.formats.deferred import all_refused
from spark_job.formats.lines import LineBlock, LineFormat, joined
from spark_job.formats.protocol import Limits, Parsed


class TextFormat(LineFormat):
    """Blank lines are records, too. A line that is not UTF-8 is refused; the others of its file are not."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        super().__init__(limits)
        self._schema = schema

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        data = joined(blocks)
        try:
            text = pa.array([data], pa.large_binary()).cast(pa.large_string())
            lines = pc.split_pattern(text, "\n").flatten()
        except pa.ArrowInvalid:  # not UTF-8
            return _line_by_line(data.split(b"\n"))
        return Parsed(_table(lines.cast(pa.string())), None, (), ())

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def _line_by_line(lines: Sequence[bytes]) -> Parsed:
    texts, positions, refused, undecodable = [], [], [], []
    for number, line in enumerate(lines):
        try:
            texts.append(line.decode())
            positions.append(number)
        except UnicodeDecodeError as error:
            refused.append((number, f"not UTF-8 at byte {error.start}: {error.reason}"))
            undecodable.append(line)
    return Parsed(_table(pa.array(texts, pa.string())), positions, refused, undecodable)


def _table(values: pa.Array) -> pa.Table:
    return pa.table([values], names=["value"])
