"""Queue messages as S3 sends them."""

import json
from typing import Any
from urllib.parse import quote_plus

from blizzard.collect.collector import Message


def put(key: str, *, etag: str = "e1", sequencer: str | None = "01", time: str = "2024-01-28T14:00:00.000Z") -> Any:
    """One record as S3 sends it."""
    described = {"key": quote_plus(key, safe="/"), "size": 10, "eTag": etag, "sequencer": sequencer}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": time,
        "s3": {"bucket": {"name": "landing"}, "object": described},
    }


def message(message_id: str, *records: Any) -> Message:
    return Message(message_id, json.dumps({"Records": records}))
