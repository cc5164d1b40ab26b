"""CloudWatch Logs: unpatched, the key of an existing log group cannot be changed."""

from moto.logs.exceptions import ResourceNotFoundException
from moto.logs.responses import LogsResponse


def change_keys() -> None:
    LogsResponse.associate_kms_key = _associate  # type: ignore[attr-defined]
    LogsResponse.disassociate_kms_key = _disassociate  # type: ignore[attr-defined]


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
