"""Files of several formats in one source: each is read by the first rule that matches its path."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from blizzard.config.formats import MIXED
from blizzard.config.schema_rules import SchemaRules
from blizzard.state.dead_letters import Stage
from spark_job.formats.deferred import all_refused
from spark_job.formats.protocol import Block, Content, FileFault, Format, Limits, Parsed
from spark_job.formats.read_rules import NO_RULE, ReadRules
from spark_job.formats.unknown_counts import MisfitCounts, UnknownCounts

LEAVE_RECORDS_TO_SPARK = ("ndjson", "json")
"""Formats whose `parse` refuses records without a reason. Both decide them in the same way."""

OpenFormat = Callable[[str, StructType, Limits, Mapping[str, Any], SchemaRules], Format[Any]]


@dataclass(frozen=True, slots=True)
class RuleBlock:
    """A block of the format of one rule."""

    rule: int
    block: Block

    @property
    def first_record(self) -> int:
        return self.block.first_record

    @property
    def count(self) -> int:
        return self.block.count

    @property
    def size_bytes(self) -> int:
        return self.block.size_bytes


class MixedFormat:
    """`open_format` opens the format of a rule by its name."""

    def __init__(
        self,
        schema: StructType,
        limits: Limits,
        options: Mapping[str, Any],
        schema_rules: SchemaRules,
        open_format: OpenFormat,
    ) -> None:
        rules = ReadRules.of(MIXED, options)
        assert rules is not None
        self._schema = schema
        self._rules = rules
        self._formats = [open_format(rule.format, schema, limits, rule.options, schema_rules) for rule in rules.rules]

    def blocks(self, content: Content, *, first_record: int) -> Iterator[RuleBlock]:
        rule = self._rules.index(content.path)
        if rule is None:
            raise FileFault(Stage.PARSE, NO_RULE)
        for block in self._formats[rule].blocks(content, first_record=first_record):
            yield RuleBlock(rule, block)

    def parse(self, blocks: Sequence[RuleBlock]) -> Parsed:
        parts = [
            (self._formats[rule].parse([one.block for one in some]), sum(one.count for one in some))
            for rule, some in ((rule, list(alike)) for rule, alike in groupby(blocks, key=lambda one: one.rule))
        ]
        return parts[0][0] if len(parts) == 1 else _together(parts)

    def decide(self, deferred: DataFrame) -> DataFrame:
        for rule, file_format in zip(self._rules.rules, self._formats, strict=True):
            if rule.format in LEAVE_RECORDS_TO_SPARK:
                return file_format.decide(deferred)
        return all_refused(deferred, self._schema)


def _together(parts: Sequence[tuple[Parsed, int]]) -> Parsed:
    """Of consecutive records. Each part has its number of records."""
    positions, refused, texts, unknown, misfits = list[int](), [], list[bytes](), UnknownCounts(), MisfitCounts()
    start = 0
    for parsed, count in parts:
        positions += [start + number for number in parsed.numbers]
        refused += [(start + number, why) for number, why in parsed.refused]
        texts += parsed.refused_texts
        unknown.add_part(parsed.unknown, start)
        misfits.add_part(parsed.misfits, start)
        start += count
    records = pa.concat_tables([parsed.records for parsed, _ in parts])
    return Parsed(records, positions if refused else None, refused, texts, unknown.found, misfits.found)
