"""Spark's JSON parser, for lines of a source with rules for data that is not as its schema says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.json.exact_records import exact_record, line_of
from spark_job.formats.json.key_case import KeyCase
from spark_job.formats.json.misfit_search import without_misfits
from spark_job.formats.json.schema_fit import parsing_type, schema_checks
from spark_job.formats.json.spark_parser import CORRUPT, PARSING, decided_by_spark
from spark_job.formats.kinds import kind_document, kinds_by_name, widening_kind
from spark_job.formats.odd_data import OddRecord, UnknownValues, outside
from spark_job.formats.odd_places import Place, places
from spark_job.formats.protocol import MISFITS

_PREPARED = StructType([StructField(name, StringType()) for name in ("line", RESCUED, MISFITS)])


def decided_with_rules(lines: DataFrame, schema: StructType, rules: SchemaRules) -> DataFrame:
    """The lines with their `record` of `schema`, and what is rescued of it; `fault` says why one is refused. With
    `MISFITS` if the source rescues those."""
    prepare = _Prepare(schema.json(), rules)
    respelled = F.udf(lambda line: prepare.respelled(line), "string")
    prepared = F.udf(lambda line, misfits: prepare.prepared(line, misfits), _PREPARED)
    found = lines.withColumn("_written", F.col("line")).withColumn("line", respelled("line"))
    misfits = F.array(*_misfits(places(schema))) if rules.rescues_misfits else F.array().cast("array<int>")
    found = found.withColumn("_prepared", prepared("line", F.filter(misfits, lambda at: at.isNotNull())))
    found = found.withColumn("line", F.col("_prepared.line"))
    judged = decided_by_spark(found, schema).withColumn("line", F.col("_written"))
    added = (RESCUED, MISFITS) if rules.rescues_misfits else (RESCUED,)
    judged = judged.withColumns({name: F.col(f"_prepared.{name}") for name in added})
    return judged.drop("_written", "_prepared")


def _misfits(some: Sequence[Place]) -> list[Column]:
    """For each place its number if the value there does not fit by itself, else null."""
    numbers = []
    for number, place in enumerate(some):
        fields = [StructField(field.name, parsing_type(field.dataType)) for field in place.alone]
        alone = F.from_json("line", StructType([*fields, StructField(CORRUPT, StringType())]), PARSING)
        outside = [F.coalesce(check.condition, F.lit(False)) for check in schema_checks(place.alone, alone)]
        is_misfit = alone[CORRUPT].isNotNull()
        for condition in outside:
            is_misfit = is_misfit | condition
        numbers.append(F.when(is_misfit, F.lit(number)))
    return numbers


@dataclass(frozen=True)
class _Prepare:
    """Runs on executors. `schema`: in Spark's JSON form."""

    schema: str
    rules: SchemaRules

    @cached_property
    def _type(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema))

    @cached_property
    def _places(self) -> Sequence[Place]:
        return places(self._type)

    @cached_property
    def _case(self) -> KeyCase:
        return KeyCase(self._type)

    @cached_property
    def _values(self) -> UnknownValues:
        return UnknownValues(self._type)

    def respelled(self, line: str | None) -> str | None:
        """With the keys as the columns spell them."""
        record = exact_record(line.encode()) if line is not None and self.rules.ignores_case else None
        if record is None or not self._case.respell(record):
            return line
        again = line_of(record)
        return line if again is None else again.decode()

    def prepared(self, line: str | None, misfits: Sequence[int]) -> tuple[str | None, str | None, str | None]:
        """The line for the parser, without the values that do not fit, what is rescued of it, and its `MISFITS`."""
        record = exact_record(line.encode()) if line is not None and self.rules.rescues else None
        if line is None or record is None:
            return line, None, None
        odd = OddRecord(self._values.of(record) if self.rules.rescues_fields else [])
        if misfits and (found := without_misfits(record, [self._places[at] for at in misfits])) is not None:
            again, odd.misfits = found
            odd.unknown = outside(odd.unknown, odd.misfits)
            line = again.decode()
        return line, odd.document(), self._told(odd)

    def _told(self, odd: OddRecord) -> str | None:
        kinds = kinds_by_name(odd.misfits, tell=self.rules.tells_misfit_kinds)
        return json.dumps({name: kind_document(widening_kind(kind)) for name, kind in kinds.items()}) if kinds else None
