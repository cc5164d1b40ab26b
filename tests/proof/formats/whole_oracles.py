"""Files that are one record."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from tests.proof.bad_input.values import Expected
from tests.proof.formats.verdicts import Reading, exactly, wanted


def read_text(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        return Reading(None, f"{error}")
    return Reading([wanted(schema, {"value": exactly(text)})])


def read_binary(body: bytes, schema: StructType, options: Mapping[str, Any]) -> Reading:
    each: dict[str, Expected] = {"content": exactly(body), "length": exactly(len(body))}
    return Reading([wanted(schema, each)])
