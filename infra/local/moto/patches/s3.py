"""S3: unpatched, two conditional creates of one key may both succeed, a key with a line feed is not found, and events
differ from those of AWS, as do the filters of notifications."""

import itertools
import threading
import time
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import quote_plus

from moto.moto_server.utilities import RegexConverter
from moto.s3 import notifications
from moto.s3.exceptions import NoSuchUpload
from moto.s3.models import Notification, S3Backend
from moto.s3.responses import S3Response

from infra.local.moto.patches.patching import wrap
from infra.local.processes.notification_filter import encoded_key

WRITES = ("put_object", "copy_object", "delete_object", "_bucket_response_delete_keys", "_key_response_post")
Call = Callable[..., Any]

_one_writer = threading.RLock()
# Starts at the clock's time: a restarted server continues above the numbers of its predecessor.
_sequencers = itertools.count(time.time_ns())


def next_sequencer() -> str:
    return f"{next(_sequencers):018X}"


def make_writes_atomic() -> None:
    """Unpatched, moto checks for the key and then writes it, and a second writer can get in between."""
    for name in WRITES:
        wrap(S3Response, name, _one_at_a_time)


def match_keys_with_line_feeds() -> None:
    wrap(RegexConverter, "__init__", match_across_lines)


def match_across_lines(original: Call) -> Call:
    """The dot in moto's routes does not match a line feed, which a key may contain."""

    @wraps(original)
    def make(converter: Any, url_map: Any, *items: str) -> None:
        original(converter, url_map, *(f"(?s:{item})" for item in items))

    return make


def refuse_parts_of_unknown_uploads() -> None:
    """Unpatched, moto fails with status 500."""
    wrap(S3Backend, "upload_part", _of_known_uploads)


def _of_known_uploads(original: Call) -> Call:
    @wraps(original)
    def upload_part(backend: Any, bucket_name: str, multipart_id: str, part_id: int, value: bytes) -> Any:
        if multipart_id not in backend.get_bucket(bucket_name).multiparts:
            raise NoSuchUpload(multipart_id)
        return original(backend, bucket_name, multipart_id, part_id, value)

    return upload_part


def send_events_like_aws() -> None:
    wrap(notifications, "send_event", _once_per_multipart_upload)
    wrap(notifications, "_get_s3_event", _like_aws)
    wrap(Notification, "_key_matches", _encoded)


def _one_at_a_time(original: Call) -> Call:
    @wraps(original)
    def write(*args: Any, **kwargs: Any) -> Any:
        with _one_writer:
            return original(*args, **kwargs)

    return write


def _once_per_multipart_upload(original: Call) -> Call:
    """Unpatched, moto also sends an event for the Put with which it completes a multipart upload."""

    @wraps(original)
    def send_event(account_id: str, event_name: str, bucket: Any, key: Any) -> None:
        is_put = event_name == notifications.S3NotificationEvent.OBJECT_CREATED_PUT_EVENT
        if not (is_put and getattr(key, "multipart", None)):
            original(account_id, event_name, bucket, key)

    return send_event


def _encoded(original: Call) -> Call:
    """S3 compares the values of a filter with the encoded key, so `date=` matches nothing, and `date%3D` does."""

    @wraps(original)
    def matches(notification: Any, key_name: str) -> bool:
        matched: bool = original(notification, encoded_key(key_name))
        return matched

    return matches


def _like_aws(original: Call) -> Call:
    """Unpatched, moto encodes `/` in keys, and leaves out the sequencer and the version."""

    @wraps(original)
    def event_of(event_name: str, bucket: Any, key: Any, notification_id: str) -> dict[str, Any]:
        event: dict[str, Any] = original(event_name, bucket, key, notification_id)
        described = event["Records"][0]["s3"]["object"]
        described["key"] = quote_plus(key.name, safe="/")
        described["sequencer"] = next_sequencer()
        if bucket.is_versioned:
            described["versionId"] = key.version_id
        return event

    return event_of
