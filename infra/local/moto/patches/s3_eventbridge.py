"""S3: unpatched, the EventBridge flag of a bucket cannot be read back, and events to EventBridge differ from AWS's."""

import re
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

from moto.events.models import events_backends
from moto.moto_api._internal import mock_random
from moto.s3 import notifications
from moto.s3.models import FakeBucket, FakeKey
from moto.s3.responses import S3Response

from infra.local.moto.patches.patching import replace, wrap
from infra.local.moto.patches.s3 import next_sequencer

REASONS = {"Put": "PutObject", "Post": "POST Object", "Copy": "CopyObject"}
CLOSING_TAG = re.compile(r"(</NotificationConfiguration>|(?<=<NotificationConfiguration)(?P<rest>[^>]*)/>)\s*$")


def send_events_to_eventbridge() -> None:
    replace(notifications, "_send_event_bridge_message", _send_event)
    wrap(S3Response, "get_bucket_notification", _with_flag)


def _send_event(account_id: str, bucket: FakeBucket, event_name: str, key: FakeKey) -> None:
    kind = event_name.split(":")[-1]
    described: dict[str, Any] = {"key": key.name, "size": key.size, "etag": key.etag.strip('"')}
    if bucket.is_versioned:
        described["version-id"] = key.version_id
    event: Any = {
        "version": "0",
        "id": str(mock_random.uuid4()),
        "detail-type": notifications._detail_type(event_name),
        "source": "aws.s3",
        "account": account_id,
        "time": time.time(),
        "region": bucket.region_name,
        "resources": [bucket.arn],
        "detail": {
            "version": "0",
            "bucket": {"name": bucket.name},
            "object": described | {"sequencer": next_sequencer()},
            "request-id": "LOCAL",
            "requester": account_id,
            "source-ip-address": "127.0.0.1",
            "reason": REASONS.get(kind, kind),
        },
    }
    for bus in events_backends[account_id][bucket.region_name].event_buses.values():
        for rule in bus.rules.values():
            rule.send_to_targets(event, transform_input=False)


def _with_flag(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get_bucket_notification(response: S3Response) -> Any:
        result = original(response)
        found = response.backend.get_bucket_notification_configuration(response.bucket_name)
        if not found or found.event_bridge is None:
            return result
        status, headers, body = result
        return status, headers, CLOSING_TAG.sub(_flagged, body if isinstance(body, str) else body.decode())

    return get_bucket_notification


def _flagged(end: re.Match[str]) -> str:
    flag = "<EventBridgeConfiguration/></NotificationConfiguration>"
    return flag if end["rest"] is None else f"{end['rest']}>{flag}"
