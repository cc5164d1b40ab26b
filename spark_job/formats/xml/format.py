"""XML: each element of one name is a record, with its attributes and child elements as columns."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
from lxml import etree
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.deferred import all_refused
from spark_job.formats.nested_columns import column_type, convert_nested
from spark_job.formats.protocol import Content, Limits, Parsed
from spark_job.formats.record_list import RecordList
from spark_job.formats.records_table import ParsedParts, RecordsSchema
from spark_job.formats.text_values import TextRules
from spark_job.formats.unknown_counts import UnknownCounts
from spark_job.formats.xml.elements import Misfit, RecordElements
from spark_job.formats.xml.rows import RowReader

_TOGETHER_BYTES = 64 << 10


class XmlFormat:
    """Columns are named as by Spark's XML source."""

    def __init__(self, schema: StructType, limits: Limits, options: Mapping[str, Any]) -> None:
        self._schema = schema
        self._limits = limits
        self._row_tag: str = options["row_tag"]
        self._ignore_namespace: bool = options["ignore_namespace"]
        self._rules = TextRules.of(options)
        self._records = RecordsSchema(schema)

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
        unknown = UnknownCounts()
        read = RecordElements(self._schema, ignore_namespace=self._ignore_namespace)
        for number, element in enumerate(_elements(records)):
            try:
                found.append(read.values(element))
                unknown.add(read.unknown, number)
                positions.append(number)
            except Misfit as misfit:
                reasons[number] = str(misfit)
        fitted = self._records.table(len(found), partial(self._column, found))
        reasons |= {positions[row]: why for row, why in fitted.reasons.items()}
        refused = {number: (why, records[number]) for number, why in reasons.items()}
        parts = ParsedParts(self._records)
        parts.add(len(records), fitted.good(), [positions[row] for row in fitted.good_rows], refused, unknown.found)
        return parts.parsed()

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)

    def _column(self, found: Sequence[Mapping[str, Any]], name: str, data_type: DataType) -> ConvertedColumn:
        values = pa.array([record.get(name) for record in found], column_type(_as_text(data_type)))
        return convert_nested(values, data_type, self._rules.convert)


def _elements(records: Sequence[bytes]) -> Iterator["etree._Element"]:
    """Some are read together, since a parser takes longer to begin than to read a record."""
    some, size = list[bytes](), 0
    for record in records:
        some.append(record)
        size += len(record)
        if size >= _TOGETHER_BYTES:
            yield from _read_together(some)
            some, size = [], 0
    yield from _read_together(some)


def _read_together(records: Sequence[bytes]) -> Iterator["etree._Element"]:
    try:
        yield from etree.fromstring(b"<all>%b</all>" % b"".join(records))
    except etree.XMLSyntaxError:  # a record that has as many levels as libxml2 reads
        yield from map(etree.fromstring, records)


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
