"""Every format of messages by the name that `format:` of a source with topics has in the configuration."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from blizzard.config.formats import ENVELOPE
from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.messages.payloads import JsonPayloads, MessageFormat, TextPayloads
from spark_job.formats.protocol import Limits
from spark_job.formats.registry import open_format


def open_message_format(
    name: str, schema: StructType, limits: Limits, options: Mapping[str, Any], rules: SchemaRules
) -> MessageFormat:
    """`schema`: the columns of a record."""
    if name == ENVELOPE:
        from spark_job.formats.messages.envelope import EnvelopeFormat

        return EnvelopeFormat(schema, limits, options)
    if name == "text":
        return TextPayloads(schema, limits)
    return JsonPayloads(open_format("json", schema, limits, {"records": None}, rules), limits)
