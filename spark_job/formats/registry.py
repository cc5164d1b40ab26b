"""Every file format by the name that `format:` has in the configuration."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import StructType

from spark_job.formats.protocol import Format, Limits

MakeFormat = Callable[[StructType, Limits], Format[Any]]


def _ndjson(schema: StructType, limits: Limits) -> Format[Any]:
    from spark_job.formats.ndjson.format import NdjsonFormat

    return NdjsonFormat(schema, limits)


def _text(schema: StructType, limits: Limits) -> Format[Any]:
    from spark_job.formats.text.format import TextFormat

    return TextFormat(schema, limits)


# Each imports its room only when it is asked for: what one format needs, no other has to load.
FORMATS: Mapping[str, MakeFormat] = {"ndjson": _ndjson, "text": _text}


def open_format(name: str, schema: StructType, limits: Limits) -> Format[Any]:
    """`schema`: the columns of a record, without those that folders spell and without `_source`."""
    return FORMATS[name](schema, limits)
