"""Every file format by the name that `format:` has in the configuration."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql.types import StructType

from blizzard.config.formats import MIXED
from blizzard.config.schema_rules import NO_RULES, RESCUED, SchemaRules
from spark_job.formats.protocol import Format, Limits

Options = Mapping[str, Any]
"""What a source sets for its format alone: `Source.format_options` of the configuration, as JSON values."""

MakeFormat = Callable[[StructType, Limits, Options], Format[Any]]
MakeRuledFormat = Callable[[StructType, Limits, Options, SchemaRules], Format[Any]]


def _ndjson(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.json.format import NdjsonFormat

    return NdjsonFormat(schema, limits, rules)


def _json(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.json.stream_format import JsonFormat

    return JsonFormat(schema, limits, options, rules)


def _csv(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.csv.format import CsvFormat

    return CsvFormat(schema, limits, options, rules)


def _parquet(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.parquet.format import ParquetFormat

    return ParquetFormat(schema, limits, rules)


def _avro(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.avro.format import AvroFormat

    return AvroFormat(schema, limits, rules)


def _orc(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.orc.format import OrcFormat

    return OrcFormat(schema, limits, rules)


def _xml(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.xml.format import XmlFormat

    return XmlFormat(schema, limits, options, rules)


def _text(schema: StructType, limits: Limits, options: Options) -> Format[Any]:
    if options.get("whole"):
        from spark_job.formats.text.whole_format import WholeTextFormat

        return WholeTextFormat(schema, limits)
    from spark_job.formats.text.format import TextFormat

    return TextFormat(schema, limits)


def _binary(schema: StructType, limits: Limits, options: Options) -> Format[Any]:
    from spark_job.formats.binary.format import BinaryFormat

    return BinaryFormat(schema, limits)


def _mixed(schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES) -> Format[Any]:
    from spark_job.formats.mixed import MixedFormat

    return MixedFormat(schema, limits, options, rules, open_format)


# Each function imports its format only when it is called, so that a job loads no packages that only other formats need.
FORMATS: Mapping[str, MakeFormat] = {
    "ndjson": _ndjson,
    "json": _json,
    "csv": _csv,
    "parquet": _parquet,
    "avro": _avro,
    "orc": _orc,
    "xml": _xml,
    "text": _text,
    "binary": _binary,
    "mixed": _mixed,
}


RULED: Mapping[str, MakeRuledFormat] = {
    "ndjson": _ndjson,
    "json": _json,
    "csv": _csv,
    "parquet": _parquet,
    "avro": _avro,
    "orc": _orc,
    "xml": _xml,
}
"""Those that find what `RuledFormat` decides: `Parsed.odd`."""


def open_format(
    name: str, schema: StructType, limits: Limits, options: Options, rules: SchemaRules = NO_RULES
) -> Format[Any]:
    """`schema`: the columns of a record, without the partition columns from its path and without `_source`."""
    if rules == NO_RULES:
        return FORMATS[name](schema, limits, options)
    if name == MIXED:
        return _mixed(schema, limits, options, rules)
    return cast("Format[Any]", with_rules(lambda columns: RULED[name](columns, limits, options, rules), schema, rules))


def with_rules(make: Callable[[StructType], Any], schema: StructType, rules: SchemaRules) -> Any:
    """What `make` returns for the columns that it has to find, with the rules applied."""
    if rules == NO_RULES:
        return make(schema)
    from spark_job.formats.ruled_format import RuledFormat
    from spark_job.formats.source_keys import SourceKeys

    columns = StructType([field for field in schema if field.name != RESCUED or not rules.rescues])
    keys = SourceKeys(columns, rules.fields)
    return RuledFormat(make(keys.schema), schema, keys, rules)
