"""Every file format by the name that `format:` has in the configuration."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import StructType

from spark_job.formats.protocol import Format, Limits

Options = Mapping[str, Any]
"""What a source sets for its format alone: `Source.format_options` of the configuration, as JSON values."""

MakeFormat = Callable[[StructType, Limits, Options], Format[Any]]


def _ndjson(schema: StructType, limits: Limits, options: Options) -> Format[Any]:
    from spark_job.formats.ndjson.format import NdjsonFormat

    return NdjsonFormat(schema, limits)


def _text(schema: StructType, limits: Limits, options: Options) -> Format[Any]:
    from spark_job.formats.text.format import TextFormat

    return TextFormat(schema, limits)


# Each function imports its format only when it is called, so that a job loads no packages that only other formats need.
FORMATS: Mapping[str, MakeFormat] = {"ndjson": _ndjson, "text": _text}


def open_format(name: str, schema: StructType, limits: Limits, options: Options) -> Format[Any]:
    """`schema`: the columns of a record, without the partition columns from its path and without `_source`."""
    return FORMATS[name](schema, limits, options)
