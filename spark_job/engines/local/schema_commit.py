"""What a commit that adds columns to a table has in the log. deltalake makes no such commit with a
Txn in it. To a table that names its features its own commits of properties add `variantType` (1.6), and where it adds
the first column of type TIMESTAMP_NTZ it forgets what the protocol had without naming it."""

from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import DeltaTable
from deltalake.table import ProtocolVersions
from pyspark.sql.types import StructType

from blizzard.state.delta_protocol import WITH_FEATURES
from spark_job.engines.local.log_file import Action, commit_info, txn_actions
from spark_job.ports.table import NO_TXNS, Txns
from spark_job.table.file_layout import TableDescription
from spark_job.table.schema import NTZ, has_ntz

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_CHECKS = ("checkConstraints",)
FEATURES_OF_VERSION: Mapping[int, Sequence[str]] = {3: _CHECKS, 4: (*_CHECKS, "changeDataFeed", "generatedColumns")}
"""What a table of this writer version has besides `appendOnly` and `invariants`, without naming it."""


def protocol_with_ntz(more: Sequence[str]) -> dict[str, Any]:
    """`more`: further features for writers."""
    return {
        "minReaderVersion": 3,
        "minWriterVersion": WITH_FEATURES,
        "readerFeatures": [NTZ],
        "writerFeatures": ["appendOnly", "invariants", NTZ, *more],
    }


def schema_actions(
    table: DeltaTable, after: TableDescription, now_ms: int, user_metadata: str, txns: Txns = NO_TXNS
) -> list[Action]:
    """`after`: the table with its new columns and properties. `txns`: versions by app id."""
    metadata, schema = table.metadata(), after.schema
    texts: dict[str, str | None] = {"name": metadata.name, "description": metadata.description}
    changed = {
        "id": str(metadata.id),
        **{name: value for name, value in texts.items() if value is not None},
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(after.properties),
        "createdTime": metadata.created_time,
    }
    protocol = _protocol_after(table.protocol(), schema)
    return [
        commit_info("ADD COLUMNS", {}, now_ms, user_metadata, is_blind_append=False),
        *([] if protocol is None else [{"protocol": protocol}]),
        {"metaData": changed},
        *txn_actions(txns, now_ms),
    ]


def _protocol_after(found: ProtocolVersions, schema: StructType) -> Mapping[str, Any] | None:
    """None: it stays as it is."""
    named = found.writer_features or ()
    if not has_ntz(schema) or NTZ in named:
        return None
    if found.min_writer_version < WITH_FEATURES:
        return protocol_with_ntz(FEATURES_OF_VERSION.get(found.min_writer_version, ()))
    return {
        "minReaderVersion": 3,
        "minWriterVersion": WITH_FEATURES,
        "readerFeatures": sorted({NTZ, *(found.reader_features or ())}),
        "writerFeatures": sorted({NTZ, *named}),
    }
