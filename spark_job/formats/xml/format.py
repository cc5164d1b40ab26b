"""XML: each element of one name is a record, with its attributes and child elements as columns."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from lxml import etree
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.deferred import all_refused
from spark_job.formats.nested_columns import column_type, convert_nested
from spark_job.formats.odd_data import OddRecord
from spark_job.formats.protocol import Content, Limits, Parsed
from spark_job.formats.record_list import RecordList
from spark_job.formats.records_table import ParsedParts, RecordsSchema
from spark_job.formats.text_values import TextRules
from spark_job.formats.unknown_counts import UnknownCounts
from spark_job.formats.xml.elements import Misfit
from spark_job.formats.xml.rows import RowReader, elements_of
from spark_job.formats.xml.ruled_reader import RuledReader

_TOGETHER_BYTES = 64 << 10


class XmlFormat:
    """Columns are named as by Spark's XML source."""

    def __init__(
        self, schema: StructType, limits: Limits, options: Mapping[str, Any], rules: SchemaRules = NO_RULES
    ) -> None:
        self._schema = schema
        self._schema_rules = rules
        self._limits = limits
        self._row_tag: str = options["row_tag"]
        self._ignore_namespace: bool = options["ignore_namespace"]
        self._rules = TextRules.of(options)
        self._records = RecordsSchema(schema, rules.rescues_misfits)

    def blocks(self, content: Content, *, first_record: int) -> Iterator[RecordList]:
        waiting, size, number = list[bytes](), 0, 0
        rows = RowReader(content.stream(), self._limits, self._row_tag, ignore_namespace=self._ignore_namespace)
        for row in rows:
            number += 1
            if number <= first_record:
                continue
            waiting.append(row)
            size += len(row)
            if size >= content.chunk_bytes:
                yield RecordList(waiting, number - len(waiting), {})
                waiting, size = [], 0
        if waiting:
            yield RecordList(waiting, number - len(waiting), {})

    def parse(self, blocks: Sequence[RecordList]) -> Parsed:
        records = list(chain.from_iterable(block.records for block in blocks))
        found, positions, reasons = list[dict[str, Any]](), list[int](), dict[int, str]()
        unknown, odd = UnknownCounts(), dict[int, OddRecord]()
        reader = self._reader()
        for number, element in enumerate(_elements(records)):
            try:
                values, names, record = reader.read(element, records[number])
            except Misfit as misfit:
                reasons[number] = str(misfit)
                continue
            found.append(values)
            positions.append(number)
            unknown.add(names, number)
            if record is not None:
                odd[number] = record
        fitted = self._records.table(len(found), partial(self._column, found))
        reasons |= {positions[row]: why for row, why in fitted.reasons.items()}
        reader.add_misfits(odd, fitted, found, positions)
        refused = {number: (why, records[number]) for number, why in reasons.items()}
        parts, rows = ParsedParts(self._records), [positions[row] for row in fitted.good_rows]
        parts.add(len(records), fitted.good(), rows, refused, unknown.found, odd)
        return parts.parsed()

    def _reader(self) -> "RuledReader":
        return RuledReader(self._schema, self._schema_rules, self._rules, ignore_namespace=self._ignore_namespace)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)

    def _column(self, found: Sequence[Mapping[str, Any]], name: str, data_type: DataType) -> ConvertedColumn:
        values = pa.array([record.get(name) for record in found], column_type(_as_text(data_type)))
        takes_out = self._schema_rules.rescues_misfits
        return convert_nested(values, data_type, self._rules.convert, takes_out=takes_out)


def _elements(records: Sequence[bytes]) -> Iterator["etree._Element"]:
    """Some are read together, since a parser takes longer to begin than to read a record."""
    some, size = list[bytes](), 0
    for record in records:
        some.append(record)
        size += len(record)
        if size >= _TOGETHER_BYTES:
            yield from elements_of(b"".join(some))
            some, size = [], 0
    yield from elements_of(b"".join(some))


def _as_text(data_type: DataType) -> DataType:
    """The type with strings as leaves, without those of a map's keys, which are strings already."""
    if isinstance(data_type, StructType):
        made = StructType()
        for field in data_type:
            made = made.add(field.name, _as_text(field.dataType))
        return made
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_text(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(StringType(), _as_text(data_type.valueType))
    return StringType()
