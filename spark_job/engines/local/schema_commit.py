"""What a commit that changes the columns of a table has in the log. deltalake makes no such commit with a Txn in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from pyspark.sql.types import StructType

from blizzard.state.delta_protocol import WITH_FEATURES
from spark_job.table.schema import has_ntz

PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
PROTOCOL_WITH_NTZ = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["appendOnly", "invariants", "timestampNtz"],
}

Action = Mapping[str, Any]


def schema_actions(
    table: DeltaTable, schema: StructType, now_ms: int, app_id: str, sequence: int, user_metadata: str
) -> Sequence[Action]:
    return [*_actions(table, schema, now_ms, app_id, sequence, user_metadata)]


def _actions(
    table: DeltaTable, schema: StructType, now_ms: int, app_id: str, sequence: int, user_metadata: str
) -> Iterator[Action]:
    metadata = table.metadata()
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
        yield {"protocol": PROTOCOL_WITH_NTZ}
    yield {
        "metaData": {
            "id": str(metadata.id),
            **{name: value for name, value in _texts(metadata) if value is not None},
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema.json(),
            "partitionColumns": list(metadata.partition_columns),
            "configuration": dict(metadata.configuration),
            "createdTime": metadata.created_time,
        }
    }
    yield {"txn": {"appId": app_id, "version": sequence, "lastUpdated": now_ms}}


def _texts(metadata: Any) -> Iterator[tuple[str, str | None]]:
    yield "name", metadata.name
    yield "description", metadata.description


def encoded(actions: Sequence[Action]) -> bytes:
    """As a file of the log."""
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
