"""The clients: botocore for everything, obstore for reading in bulk. Both are imported and made when first used."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from blizzard.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import S3Store as BulkStore

# botocore renews credentials 10 minutes before they end; whoever keeps a copy for longer may use a dead one.
_CREDENTIALS_TTL = timedelta(minutes=10)
# obstore's limit on a whole download: a slow reader of a large object must not run into it. Stalls have read_timeout.
_DOWNLOAD_LIMIT = timedelta(days=7)
_MOST_IDLE = 1024


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach S3. None leaves it to botocore's own chain (environment, profile, instance)."""

    endpoint_url: str | None = None
    region: str | None = None
    max_attempts: int = 8
    first_backoff_secs: float = 0.1
    max_backoff_secs: float = 20.0
    connect_timeout_secs: float = 5.0
    read_timeout_secs: float = 60.0
    max_connections: int = 32
    chunk_bytes: int = 1 << 20
    """What an open object keeps in memory at a time."""
    page_size: int = 1000

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Reads AWS's own names; what is not set there stays at its default. Raises ConfigError."""
        return cls(
            endpoint_url=_endpoint(environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None),
            region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or None,
            max_attempts=_attempts(environ.get("AWS_MAX_ATTEMPTS") or str(cls().max_attempts)),
        )


def _endpoint(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError([f"AWS_ENDPOINT_URL: expected http://… or https://…, found {url!r}"])
    return url


def _attempts(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ConfigError([f"AWS_MAX_ATTEMPTS: expected a whole number from 1 on, found {text!r}"])
    return int(text)


def timestamp(value: Any) -> datetime:
    """A time in an answer of AWS: as in listings (`2026-11-22T10:00:00.000Z`) at once, any other form as botocore reads
    it. Raises what that does, ValueError for what is no time."""
    if isinstance(value, str) and value.endswith("Z") and "T" in value:
        with suppress(ValueError):
            return datetime.fromisoformat(value)
    from botocore.utils import parse_timestamp  # type: ignore[import-untyped]

    parsed: datetime = parse_timestamp(value)
    return parsed


def connection(settings: S3Settings) -> "S3Connection":
    """One for all stores whose settings differ in nothing but retries, which are no business of the clients: one of its
    own would cost each of them 0.1 s."""
    plain = S3Settings()
    return _connection(
        replace(
            settings,
            max_attempts=plain.max_attempts,
            first_backoff_secs=plain.first_backoff_secs,
            max_backoff_secs=plain.max_backoff_secs,
        )
    )


@lru_cache(maxsize=8)
def _connection(settings: S3Settings) -> "S3Connection":
    return S3Connection(settings)


class S3Connection:
    """Clients for any bucket; safe to share between threads, not across a fork."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._session: Any = None
        self._client: Any = None
        self._bulk: dict[str, BulkStore | None] = {}

    @property
    def client(self) -> Any:
        """botocore's S3 client, without retries of its own: they are counted, timed and logged in one place, ours."""
        with self._lock:
            if self._client is None:
                self._connect()
            return self._client

    def client_of(self, service: str, config: Any) -> Any:
        """A new client of another service, with botocore's Config, from the same session: reading the list of AWS's
        endpoints into a second one takes 50 ms. Its endpoint is botocore's choice, that is TLS, or AWS_ENDPOINT_URL."""
        _ = self.client
        with self._lock:
            return self._session.create_client(service, region_name=self._settings.region, config=config)

    def bulk(self, bucket: str) -> "BulkStore | None":
        """obstore's view of a bucket; None without credentials, so that botocore says what it looked for."""
        found = self._bulk.get(bucket)
        if found is not None:
            return found
        client = self.client
        with self._lock:
            if bucket not in self._bulk:
                self._bulk[bucket] = self._connect_bulk(bucket, client)
            return self._bulk[bucket]

    def _connect(self) -> None:
        # boto3's own session would say the same: 50 ms, 11 MB and one folder of packages more in each function.
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import get_session  # type: ignore[import-untyped]

        settings = self._settings
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=settings.connect_timeout_secs,
            read_timeout=settings.read_timeout_secs,
            max_pool_connections=settings.max_connections,
            # A local endpoint has no DNS name for each bucket.
            s3={"addressing_style": "path"} if settings.endpoint_url else None,
        )
        self._session = get_session()
        # botocore's own reading of the time of each listed object is three quarters of a listing's work.
        self._session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
        self._client = self._session.create_client(
            "s3", region_name=settings.region, endpoint_url=settings.endpoint_url, config=config
        )

    def _connect_bulk(self, bucket: str, client: Any) -> "BulkStore | None":
        from obstore.auth.boto3 import Boto3CredentialProvider
        from obstore.store import S3Store as BulkStore

        if self._session.get_credentials() is None:
            return None
        settings = self._settings
        endpoint, region = client.meta.endpoint_url, client.meta.region_name
        return BulkStore(
            bucket,
            # What botocore found out, profiles included. This name of the endpoint beats every one in the environment.
            aws_endpoint_url_s3=endpoint,
            region="us-east-1" if region == "aws-global" else region,
            virtual_hosted_style_request=False,
            credential_provider=Boto3CredentialProvider(self._session, ttl=_CREDENTIALS_TTL),
            retry_config={"max_retries": 0},
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=settings.connect_timeout_secs),
                "read_timeout": timedelta(seconds=settings.read_timeout_secs),
                "timeout": _DOWNLOAD_LIMIT,
                # A connection that is dropped for being one too many costs the next request a handshake.
                "pool_max_idle_per_host": str(_MOST_IDLE),
            },
        )
