"""Blocks of JSON lines for the tests of the fast parser."""

from typing import Any

from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.refusal import refusal
from spark_job.formats.json.type_mismatch import type_mismatch
from spark_job.formats.protocol import Parsed

SIMPLE = StructType([StructField("id", StringType(), False), StructField("n", LongType())])
GOOD = b'{"id":"a","n":1}'
A = {"id": "a", "n": 1}
DEFERRED = "left to Spark"


def parse(*lines: bytes | str, schema: StructType = SIMPLE) -> Parsed:
    return NdjsonParser(schema).parse(b"\n".join(line.encode() if isinstance(line, str) else line for line in lines))


def accepted(parsed: Parsed) -> dict[int, dict[str, Any]]:
    """The accepted records by line number."""
    records = parsed.records.to_pylist()
    return dict(zip(range(len(records)) if parsed.positions is None else parsed.positions, records, strict=True))


def one(data_type: DataType, *values: str) -> list[Any]:
    """The value of a column for each of these texts, each in a block of its own; DEFERRED if Spark decides."""
    schema = StructType([StructField("v", data_type)])
    blocks = [accepted(parse(f'{{"v":{value}}}', schema=schema)) for value in values]
    return [block[0]["v"] if block else DEFERRED for block in blocks]


def reason_without_spark(line: str) -> str | None:
    """None for what is left to Spark."""
    return refusal(line) or type_mismatch(line.encode(), SIMPLE)
