"""What a commit that changes the columns of a table has in the log. deltalake makes no such commit with a Txn in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable

from blizzard.state.delta_protocol import WITH_FEATURES
from spark_job.table.file_layout import TableDescription
from spark_job.table.schema import has_ntz

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_CHECKS = ("checkConstraints",)
FEATURES_OF_VERSION: Mapping[int, Sequence[str]] = {3: _CHECKS, 4: (*_CHECKS, "changeDataFeed", "generatedColumns")}
"""What a table of this writer version has besides `appendOnly` and `invariants`, without naming it."""

Action = Mapping[str, Any]


def protocol_with_ntz(more: Sequence[str]) -> dict[str, Any]:
    """`more`: further features for writers."""
    return {
        "minReaderVersion": 3,
        "minWriterVersion": WITH_FEATURES,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": ["appendOnly", "invariants", "timestampNtz", *more],
    }


def schema_actions(
    table: DeltaTable, after: TableDescription, now_ms: int, txns: Mapping[str, int], user_metadata: str
) -> Sequence[Action]:
    """`after`: the table with its new columns and properties. `txns`: versions by app id."""
    return [*_actions(table, after, now_ms, txns, user_metadata)]


def _actions(
    table: DeltaTable, after: TableDescription, now_ms: int, txns: Mapping[str, int], user_metadata: str
) -> Iterator[Action]:
    metadata, schema = table.metadata(), after.schema
    yield {
        "commitInfo": {
            "timestamp": now_ms,
            "operation": "ADD COLUMNS",
            "operationParameters": {},
            "isBlindAppend": False,
            "userMetadata": user_metadata,
            "txnId": str(uuid4()),
        }
    }
    if has_ntz(schema) and table.protocol().min_writer_version < WITH_FEATURES:
        yield {"protocol": protocol_with_ntz(FEATURES_OF_VERSION.get(table.protocol().min_writer_version, ()))}
    yield {
        "metaData": {
            "id": str(metadata.id),
            **{name: value for name, value in _texts(metadata) if value is not None},
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.json(),
            "partitionColumns": list(metadata.partition_columns),
            "configuration": dict(after.properties),
            "createdTime": metadata.created_time,
        }
    }
    for app_id, version in txns.items():
        yield {"txn": {"appId": app_id, "version": version, "lastUpdated": now_ms}}


def _texts(metadata: Any) -> Iterator[tuple[str, str | None]]:
    yield "name", metadata.name
    yield "description", metadata.description


def encoded(actions: Sequence[Action]) -> bytes:
    """As a file of the log."""
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
