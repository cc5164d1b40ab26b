"""What actions of Delta's log have in them, apart from those of data files."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from spark_job.table.engine import NewTable


def metadata_fields(table: NewTable, properties: Mapping[str, str], now_ms: int) -> Mapping[str, Any]:
    """Of a new table."""
    return {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema.json(),
        "partitionColumns": list(table.partition_by),
        "configuration": dict(properties),
        "createdTime": now_ms,
    }


def txn_fields(app_id: str, version: int, now_ms: int) -> Mapping[str, Any]:
    return {"appId": app_id, "version": version, "lastUpdated": now_ms}
