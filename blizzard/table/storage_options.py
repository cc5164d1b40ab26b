"""How deltalake reaches S3: as botocore does, with its profiles, roles and endpoints."""

from collections.abc import Mapping

from blizzard.storage.s3_connection import S3Settings, connection

WHOLE_REQUESTS = 5
"""deltalake has no time limit for a stalled read, only one for all of a request, which may read a large checkpoint."""

IDLE_CONNECTIONS = 8
"""deltalake's limit is none: it keeps as many open as there were requests at once."""


def storage_options(settings: S3Settings) -> Mapping[str, str]:
    """Asked for again at each commit, since credentials of a role expire."""
    found = connection(settings).resolved()
    options = {
        "aws_endpoint_url": found.endpoint_url,
        "aws_region": found.region,
        "aws_virtual_hosted_style_request": "false",
        "aws_conditional_put": "etag",
        "connect_timeout": f"{settings.connect_timeout_secs}s",
        "timeout": f"{WHOLE_REQUESTS * settings.read_timeout_secs}s",
        "pool_max_idle_per_host": f"{IDLE_CONNECTIONS}",
        "max_retries": f"{settings.max_attempts - 1}",
        "backoff_config.init_backoff": f"{settings.first_backoff_secs}s",
        "backoff_config.max_backoff": f"{settings.max_backoff_secs}s",
    }
    if found.endpoint_url.startswith("http://"):
        options["aws_allow_http"] = "true"
    if found.access_key is not None and found.secret_key is not None:
        options |= {"aws_access_key_id": found.access_key, "aws_secret_access_key": found.secret_key}
    if found.token is not None:
        options["aws_session_token"] = found.token
    return options
