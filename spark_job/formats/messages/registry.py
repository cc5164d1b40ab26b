"""Every format of messages by the name that `format:` of a source with topics has in the configuration."""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from pyspark.sql.types import StructType

from blizzard.config.formats import AVRO, ENVELOPE
from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.messages.payloads import JsonPayloads, MessageFormat, TextPayloads
from spark_job.formats.protocol import Limits
from spark_job.formats.registry import RULED, open_format, with_rules


def open_message_format(
    name: str, schema: StructType, limits: Limits, options: Mapping[str, Any], rules: SchemaRules
) -> MessageFormat:
    """`schema`: the columns of a record. Raises PermanentError for options by which no message could be read."""
    if name == ENVELOPE:
        from spark_job.formats.messages.envelope import EnvelopeFormat

        return EnvelopeFormat(schema, limits, options)
    if name == AVRO:
        return cast("MessageFormat", with_rules(partial(_avro, limits, options, rules), schema, rules))
    if name == "text":
        return TextPayloads(schema, limits)
    return JsonPayloads(open_format("json", schema, limits, {"records": None}, rules), limits)


def _avro(limits: Limits, options: Mapping[str, Any], rules: SchemaRules, schema: StructType) -> MessageFormat:
    from blizzard.kafka.schema_registry import SchemaRegistry
    from spark_job.formats.messages.avro_payloads import AvroPayloads, AvroRecords

    registry = options["registry"]
    schemas = None if registry is None else SchemaRegistry(**registry)
    records = cast("AvroRecords", RULED[AVRO](schema, limits, {}, rules))
    return AvroPayloads(records, limits, options["schema"], schemas)
