"""CSV: each record is a line of fields, which are columns by the header's names or by position."""

from collections.abc import Iterator, Mapping, Sequence
from csv import Error as CsvError
from csv import reader as csv_reader
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from blizzard.config.field_places import in_place
from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.infer.text import TextForms, names_codes
from blizzard.infer.types import STRING
from blizzard.state.dead_letters import Stage
from spark_job.formats.converted_column import ConvertedColumn
from spark_job.formats.csv.dialect import Dialect
from spark_job.formats.csv.fields import Fields, divided, lone_crs
from spark_job.formats.csv.records import CsvBlock, RecordReader, Records
from spark_job.formats.deferred import all_refused
from spark_job.formats.header import check_header, named
from spark_job.formats.kinds import kind_of_text
from spark_job.formats.odd_columns import respelled_names
from spark_job.formats.odd_data import OddRecord, OddValue
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed, UnknownField
from spark_job.formats.record_list import JoinedRecords, all_broken, all_records
from spark_job.formats.records_table import Fitted, ParsedParts, RecordsSchema
from spark_job.formats.text_values import TextRules
from spark_job.formats.transcode import Utf8Stream


class CsvFormat:
    """The fields of a record that the schema does not name are not converted."""

    def __init__(
        self, schema: StructType, limits: Limits, options: Mapping[str, Any], rules: SchemaRules = NO_RULES
    ) -> None:
        self._schema = schema
        self._schema_rules = rules
        self._limits = limits
        self._dialect = Dialect.of(options)
        self._encoding: str = options["encoding"]
        self._rules = TextRules.of(options)
        self._records = RecordsSchema(schema, rules.rescues_misfits)

    def blocks(self, content: Content, *, first_record: int) -> Iterator[CsvBlock]:
        stream = Utf8Stream(content.stream(), self._encoding, has_option=True)
        columns, number = self._given_columns(), 0
        for part in RecordReader(stream, self._dialect, self._limits, content.chunk_bytes):
            if columns is None and part.records:
                columns, part = self._header(part)
            if not part.records or columns is None:
                continue
            block = CsvBlock(part.records, number, part.broken, columns)
            number += block.count
            if number > first_record:
                yield block.from_record(first_record)
        if columns is None:
            raise FileFault(Stage.PARSE, "it is empty; expected a header with the names of the columns")

    def _given_columns(self) -> tuple[str, ...] | None:
        """None if each file has a header. Raises FileFault if the given names do not fit the schema."""
        header = self._dialect.header
        if isinstance(header, bool):
            return None if header else tuple(self._schema.names)
        return self._checked(header)

    def _header(self, part: Records) -> tuple[tuple[str, ...], Records]:
        """The names in the first record, and the other records. Raises FileFault."""
        if 0 in part.broken:
            raise FileFault(Stage.PARSE, f"its header: {part.broken[0]}")
        names = self._fields(part.records[0])
        columns = self._checked(names)
        broken = {number - 1: why for number, why in part.broken.items()}
        records = part.records
        return columns, Records(records.without_first() if isinstance(records, JoinedRecords) else records[1:], broken)

    def _checked(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names as the schema spells them. Raises FileFault."""
        spelled = respelled_names(names, self._schema.names) if self._schema_rules.ignores_case else names
        check_header(names, spelled, self._schema)
        return named(spelled)

    def _fields(self, record: bytes) -> list[str]:
        dialect = self._dialect
        lines = [dialect.without_escapes(record).decode()]
        quoting: Mapping[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": 3}
        try:
            return next(csv_reader(lines, delimiter=dialect.delimiter, **quoting))
        except (CsvError, StopIteration) as error:
            why = lone_crs([record], dialect).get(0, error)
            raise FileFault(Stage.PARSE, f"its header cannot be divided into names: {why}") from error

    def parse(self, blocks: Sequence[CsvBlock]) -> Parsed:
        parts = ParsedParts(self._records)
        for columns, alike in groupby(blocks, key=lambda block: block.columns):
            self._parse_alike(columns, list(alike), parts)
        return parts.parsed()

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)

    def _parse_alike(self, columns: tuple[str, ...], blocks: Sequence[CsvBlock], parts: ParsedParts) -> None:
        """Of blocks with the same columns."""
        records, broken = all_records(blocks), all_broken(blocks)
        wanted = [name for name in self._schema.names if name in columns]
        others = [name for name in columns if name not in self._schema.names]
        if self._schema_rules.looks_at_fields:
            wanted += others
        fields = divided(records, broken, columns, wanted, self._dialect)
        fitted = self._records.table(fields.table.num_rows, partial(self._column, fields.table))
        reasons = fields.reasons | {fields.rows[row]: why for row, why in fitted.reasons.items()}
        refused = {number: (why, records[number]) for number, why in reasons.items()}
        unknown = (
            {}
            if self._schema_rules.looks_at_fields
            else dict.fromkeys(map(in_place, others), UnknownField(len(records), 0))
        )
        odd = self._odd_records(fields, others, fitted, records) if self._schema_rules.looks_at_records else {}
        rows = [fields.rows[row] for row in fitted.good_rows] if fitted.reasons else fields.rows
        parts.add(len(records), fitted.good(), rows, refused, unknown, odd)

    def _odd_records(
        self, fields: Fields, others: Sequence[str], fitted: Fitted, records: Sequence[bytes]
    ) -> dict[int, OddRecord]:
        """By the number of the record."""
        found: dict[int, OddRecord] = {}
        for name in others if self._schema_rules.looks_at_fields else ():
            values = fields.table.column(name)
            rows = pc.indices_nonzero(values.is_valid()).to_pylist()
            for row, value in zip(rows, values.drop_null().to_pylist(), strict=True):
                record = found.setdefault(fields.rows[row], OddRecord(text=records[fields.rows[row]]))
                record.unknown.append(self._odd_value(name, value))
        for one in fitted.taken_out:
            name = one.path[0]
            for row in sorted(one.rows - fitted.reasons.keys()):
                value = fields.table.column(name)[row].as_py()
                odd = self._odd_value(name, value, self._schema[name].dataType)
                found.setdefault(fields.rows[row], OddRecord()).misfits.append(odd)
        return found

    def _odd_value(self, name: str, text: str, wanted: DataType | None = None) -> OddValue:
        """`wanted`: of the column that it does not fit."""
        rules = self._rules
        forms = TextForms(rules.decimal_point, rules.date_format, rules.timestamp_format)
        tells = self._schema_rules.tells_field_kinds or self._schema_rules.tells_misfit_kinds
        kind = (STRING if names_codes(name) else kind_of_text(text, forms, wanted)) if tells else None
        return OddValue(in_place(name), in_place(name), text, kind)

    def _column(self, table: pa.Table, name: str, data_type: DataType) -> ConvertedColumn | None:
        if name not in table.schema.names:
            return None
        values = table.column(name)
        return self._rules.convert(values.chunk(0) if values.num_chunks == 1 else values.combine_chunks(), data_type)
