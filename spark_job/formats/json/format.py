"""NDJSON: each line is one JSON object; blank lines are no records."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.state.dead_letters import Stage
from spark_job.formats.json.braced_lines import BracedLines, are_braced
from spark_job.formats.json.json_records import JsonRecords
from spark_job.formats.lines import LineBlock, LineFormat, check_utf8, count_lines, joined
from spark_job.formats.marks import FIRST_BYTES, is_no_json
from spark_job.formats.protocol import FileFault, Limits, Parsed
from spark_job.formats.search import matches


class NdjsonFormat(LineFormat):
    """A file with a line that is not UTF-8 is refused as a whole: its encoding is not what it should be."""

    def __init__(self, schema: StructType, limits: Limits, rules: SchemaRules = NO_RULES) -> None:
        super().__init__(limits)
        self._records = JsonRecords(schema, rules)
        self._parser = self._records.parser

    def block_of(self, data: bytes, first_record: int) -> LineBlock:
        count = count_lines(data)
        if are_braced(data, count):
            return BracedLines(data, count, first_record)
        if not _may_hold_blank_line(data):
            return LineBlock(data, count, first_record)
        found = [line for line in data.split(b"\n") if line and not line.isspace()]
        return LineBlock(b"\n".join(found), len(found), first_record)

    def check(self, block: LineBlock) -> None:
        check_utf8(block)
        if not block.first_record and is_no_json(block.data[:FIRST_BYTES]):
            raise FileFault(Stage.PARSE, "it is not JSON")

    def parse(self, blocks: Sequence[LineBlock]) -> Parsed:
        are_all_braced = all(isinstance(block, BracedLines) for block in blocks)
        return self._parser.parse(joined(blocks), braced=sum(b.count for b in blocks) if are_all_braced else None)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return self._records.decide(deferred)


def _may_hold_blank_line(data: bytes) -> bool:
    """Whether a line is empty or begins with white space."""
    if data[:1].isspace() or data[-1:] in (b"", b"\n"):
        return True
    return matches(r"\n[ \t\n\r\v\f]", data)
