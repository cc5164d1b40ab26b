"""What becomes of records whose data is not as the schema says: the one place that decides it, for every format."""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.kinds import kinds_by_name, widening_kind
from spark_job.formats.nested_columns import column_type
from spark_job.formats.odd_data import OddRecord
from spark_job.formats.protocol import MISFITS, Block, Content, Format, Parsed
from spark_job.formats.source_keys import SourceKeys
from spark_job.formats.unknown_counts import MisfitCounts, UnknownCounts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RuledFormat:
    """Applies a source's rules to what its format found. `columns`: of the source, with `_rescued` if it has that.
    `inner` reads records of `keys.schema`."""

    def __init__(self, inner: Format[Any], columns: StructType, keys: SourceKeys, rules: SchemaRules) -> None:
        self._inner = inner
        self._keys = keys
        self._rules = rules
        self._schema = pa.schema([pa.field(field.name, column_type(field.dataType)) for field in columns])

    def blocks(self, content: Content, *, first_record: int) -> Iterator[Block]:
        return self._inner.blocks(content, first_record=first_record)

    def parse(self, blocks: Sequence[Block]) -> Parsed:
        parsed = self._inner.parse(blocks)
        odd = parsed.odd
        unknown, misfits = UnknownCounts(), MisfitCounts()
        for number, record in sorted(odd.items()):
            unknown.add(kinds_by_name(record.unknown, tell=self._rules.tells_field_kinds), number)
            kinds = kinds_by_name(record.misfits, tell=self._rules.tells_misfit_kinds)
            misfits.add({self._keys.column_at(name): widening_kind(kind) for name, kind in kinds.items()}, number)
        counted = unknown.found if self._rules.looks_at_fields else parsed.unknown
        parsed = replace(parsed, odd={}, unknown=counted, misfits=misfits.found)
        if self._rules.refuses_fields:
            parsed = _without(parsed, {number: record for number, record in odd.items() if record.unknown})
        columns = self._keys.columns(parsed.records)
        if RESCUED in self._schema.names:
            columns[RESCUED] = self._rescued(parsed, odd)
        ordered = [columns[name] for name in self._schema.names]
        return replace(parsed, records=pa.Table.from_arrays(ordered, schema=self._schema))

    def _rescued(self, parsed: Parsed, odd: Mapping[int, OddRecord]) -> pa.Array:
        count = parsed.records.num_rows
        if not odd:
            return pa.nulls(count, pa.string())
        texts: list[str | None] = [None] * count
        numbers = parsed.numbers
        for number, record in odd.items():
            row = bisect_left(numbers, number)
            if row < count and numbers[row] == number:
                texts[row] = record.document()
        return pa.array(texts, pa.string())

    def decide(self, deferred: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F

        judged, keys = self._inner.decide(deferred), self._keys
        if MISFITS in judged.columns:
            at_columns = F.udf(lambda misfits: _at_columns(misfits, keys), "string")
            judged = judged.withColumn(MISFITS, at_columns(MISFITS))
        columns = self._keys.record(F.col("record"))
        if RESCUED in self._schema.names:
            rescued = F.col(RESCUED) if RESCUED in judged.columns else F.lit(None).cast("string")
            columns[RESCUED] = rescued
        record = F.struct(*(columns[name].alias(name) for name in self._schema.names))
        return judged.withColumn("record", F.when(F.col("record").isNotNull(), record)).drop(RESCUED)


def _at_columns(misfits: str | None, keys: SourceKeys) -> str | None:
    """A value of the column `MISFITS` with the names of the source's columns instead of the files' keys."""
    found = None if misfits is None else json.loads(misfits)
    return found and json.dumps({keys.column_at(name): kind for name, kind in found.items()})


def _without(parsed: Parsed, odd: Mapping[int, OddRecord]) -> Parsed:
    """With these records refused, beside those that are refused for a reason already."""
    if not odd:
        return parsed
    texts = dict(zip((number for number, _ in parsed.refused), parsed.refused_texts, strict=True))
    reasons = {number: why or _no_column(odd.get(number)) for number, why in parsed.refused}
    for number, record in odd.items():
        reasons.setdefault(number, _no_column(record))
        texts.setdefault(number, record.text)
    good = [(row, number) for row, number in enumerate(parsed.numbers) if number not in odd]
    return replace(
        parsed,
        records=parsed.records.take(pa.array([row for row, _ in good], pa.int64())),
        positions=[number for _, number in good],
        refused=sorted(reasons.items()),
        refused_texts=[texts[number] for number in sorted(reasons)],
    )


def _no_column(record: OddRecord | None) -> str | None:
    if record is None:
        return None
    names = list(dict.fromkeys(one.name for one in record.unknown))
    return f"no column is for {', '.join(names)}; `new_fields: dead_letter` refuses such records"
