"""A commit as a file of Delta's log."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from spark_job.ports.table import Txns
from spark_job.table.add_action import add_fields
from spark_job.table.log_actions import txn_fields
from spark_job.write.data_file import DataFile

Action = Mapping[str, Any]


def append_info(partition_by: Sequence[str], now_ms: int, user_metadata: str) -> Action:
    parameters = {"mode": "Append", "partitionBy": json.dumps(list(partition_by))}
    return commit_info("WRITE", parameters, now_ms, user_metadata, is_blind_append=True)


def commit_info(
    operation: str, parameters: Mapping[str, str], now_ms: int, user_metadata: str, *, is_blind_append: bool
) -> Action:
    said = {
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": parameters,
        "isBlindAppend": is_blind_append,
        "userMetadata": user_metadata,
        "txnId": str(uuid4()),
    }
    return {"commitInfo": said}


def add_actions(files: Iterable[DataFile]) -> list[Action]:
    return [{"add": add_fields(file)} for file in files]


def txn_actions(txns: Txns, now_ms: int) -> list[Action]:
    """`txns`: versions by app id."""
    return [{"txn": txn_fields(app_id, version, now_ms)} for app_id, version in txns.items()]


def encoded(actions: Sequence[Action]) -> bytes:
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
