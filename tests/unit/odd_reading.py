"""What reading with rules gives, in the form in which tests expect it."""

from collections.abc import Mapping
from typing import Any

import orjson

from blizzard.config.schema_rules import RESCUED, SchemaRules
from spark_job.formats.protocol import Misfits, UnknownField
from tests.unit.format_reading import Read

RESCUE = SchemaRules("rescue", "rescue")


def rescued(read: Read) -> dict[int, Any]:
    """The rescued object of each row; None: there is none."""
    texts = {number: row[RESCUED] for number, row in read.rows.items()}
    return {number: None if text is None else orjson.loads(text) for number, text in texts.items()}


def columns(read: Read) -> list[dict[str, Any]]:
    """The rows without what is rescued."""
    return [{name: value for name, value in row.items() if name != RESCUED} for row in read.values]


def counts(found: Mapping[str, UnknownField] | Mapping[str, Misfits]) -> dict[str, tuple[int, int]]:
    return {name: (one.records, one.first) for name, one in found.items()}
