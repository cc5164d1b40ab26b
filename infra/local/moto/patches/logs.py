"""CloudWatch Logs: unpatched, the key of an existing log group cannot be changed, and FilterLogEvents ignores the
prefix of the streams' names."""

import json
from collections.abc import Callable
from functools import wraps

from moto.logs.exceptions import ResourceNotFoundException
from moto.logs.responses import LogsResponse

from infra.local.moto.patches.patching import wrap


def change_keys() -> None:
    LogsResponse.associate_kms_key = _associate  # type: ignore[attr-defined]
    LogsResponse.disassociate_kms_key = _disassociate  # type: ignore[attr-defined]


def filter_by_stream_prefix() -> None:
    wrap(LogsResponse, "filter_log_events", _with_prefix)


def _associate(response: LogsResponse) -> str:
    return _set_key(response, response._get_param("kmsKeyId"))


def _disassociate(response: LogsResponse) -> str:
    return _set_key(response, None)


def _set_key(response: LogsResponse, key: str | None) -> str:
    name = response._get_param("logGroupName")
    if name not in response.logs_backend.groups:
        raise ResourceNotFoundException
    response.logs_backend.groups[name].kms_key_id = key
    return ""


def _with_prefix(original: Callable[[LogsResponse], str]) -> Callable[[LogsResponse], str]:
    """moto pages through what it has found, so the streams are chosen from each page."""

    @wraps(original)
    def filter_log_events(response: LogsResponse) -> str:
        prefix = response._get_param("logStreamNamePrefix") or ""
        page = json.loads(original(response))
        page["events"] = [event for event in page["events"] if event["logStreamName"].startswith(prefix)]
        return json.dumps(page)

    return filter_log_events
