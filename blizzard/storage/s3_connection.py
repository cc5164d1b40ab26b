"""S3 clients: botocore for everything, obstore for bulk reads. Both are imported and created on first use."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from blizzard.errors import ConfigError

if TYPE_CHECKING:
    from obstore.store import S3Store as ObstoreS3Store

# botocore renews credentials 10 minutes before they expire. A copy that is kept longer may have expired.
_CREDENTIALS_TTL = timedelta(minutes=10)
# obstore's limit for a whole download. A slow reader of a large object must not reach it; read_timeout catches stalls.
_DOWNLOAD_LIMIT = timedelta(days=7)
_MAX_IDLE_CONNECTIONS = 1024
_DEFAULT_REGION = "us-east-1"
_GOOGLE = "storage.googleapis.com"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach S3. None: botocore looks it up in its own chain (environment, profile, instance)."""

    endpoint_url: str | None = None
    region: str | None = None
    max_attempts: int = 8
    first_backoff_secs: float = 0.1
    max_backoff_secs: float = 20.0
    connect_timeout_secs: float = 5.0
    read_timeout_secs: float = 60.0
    max_connections: int = 32
    chunk_bytes: int = 1 << 20
    """How much of an open object is held in memory."""
    page_size: int = 1000

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Reads the environment variables of the AWS SDKs; others keep their defaults. Raises ConfigError."""
        return cls(
            endpoint_url=_endpoint(environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None),
            region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or None,
            max_attempts=_attempts(environ.get("AWS_MAX_ATTEMPTS") or str(cls().max_attempts)),
        )


def _endpoint(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise ConfigError([f"AWS_ENDPOINT_URL: expected http://… or https://…, found {url!r}; correct it or unset it"])
    host = (urlsplit(url or "").hostname or "").rstrip(".")
    if host == _GOOGLE or host.endswith(f".{_GOOGLE}"):
        # Nothing would fail: two jobs would both succeed with the same commit, and the rows of one would be lost.
        problem = (
            f"AWS_ENDPOINT_URL: expected S3 that creates an object only if there is none (If-None-Match), "
            f"found {url!r}: Google Cloud Storage ignores that header when it writes. Use another storage, or copy the "
            "files to one"
        )
        raise ConfigError([problem])
    return url


def _attempts(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ConfigError([f"AWS_MAX_ATTEMPTS: expected a whole number, 1 or greater, found {text!r}; correct it"])
    return int(text)


def parse_aws_timestamp(value: Any) -> datetime:
    """A time in a response of AWS. The form of listings (`2026-11-22T10:00:00.000Z`) is parsed by the standard library,
    which is faster; any other form by botocore. Raises ValueError, and whatever botocore raises."""
    if isinstance(value, str) and value.endswith("Z") and "T" in value:
        with suppress(ValueError):
            return datetime.fromisoformat(value)
    from botocore.utils import parse_timestamp  # type: ignore[import-untyped]

    parsed: datetime = parse_timestamp(value)
    return parsed


def connection(settings: S3Settings) -> "S3Connection":
    """A connection shared by all stores with the same settings. Retries may differ, since the clients do not retry. A
    new connection takes 0.1 s."""
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


@dataclass(frozen=True, slots=True)
class ResolvedS3:
    """What a client of S3 needs. Without credentials the three last are None."""

    endpoint_url: str
    region: str
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    token: str | None = field(repr=False)


class S3Connection:
    """Clients for any bucket. Safe to share between threads, not across a fork."""

    def __init__(self, settings: S3Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._session: Any = None
        self._client: Any = None
        self._obstore_stores: dict[str, ObstoreS3Store | None] = {}

    @property
    def client(self) -> Any:
        """botocore's S3 client. It does not retry: storage.retry counts, delays and logs all retries."""
        with self._lock:
            if self._client is None:
                self._connect()
            return self._client

    def create_client(self, service: str, config: Any) -> Any:
        """A new client of another service, with botocore's Config. It uses the same session, since loading the list of
        AWS's endpoints into a second one takes 50 ms. botocore chooses the endpoint: TLS, or AWS_ENDPOINT_URL."""
        _ = self.client
        with self._lock:
            return self._session.create_client(service, region_name=self._settings.region, config=config)

    def obstore_store(self, bucket: str) -> "ObstoreS3Store | None":
        """obstore's store of a bucket. None without credentials: botocore's error says where it looked for them."""
        found = self._obstore_stores.get(bucket)
        if found is not None:
            return found
        client = self.client
        with self._lock:
            if bucket not in self._obstore_stores:
                self._obstore_stores[bucket] = self._connect_obstore(bucket, client)
            return self._obstore_stores[bucket]

    def resolved(self) -> "ResolvedS3":
        """Endpoint, region and current credentials, as botocore finds them. For clients that are not botocore's."""
        client = self.client
        with self._lock:
            found = self._session.get_credentials()
        frozen = None if found is None else found.get_frozen_credentials()
        endpoint, region = _endpoint_and_region(client)
        if frozen is None:
            return ResolvedS3(endpoint, region, None, None, None)
        return ResolvedS3(endpoint, region, frozen.access_key, frozen.secret_key, frozen.token)

    def _connect(self) -> None:
        # boto3's session would do the same, but takes 50 ms, 11 MB and another package in each function's bundle.
        from botocore.config import Config  # type: ignore[import-untyped]
        from botocore.session import get_session  # type: ignore[import-untyped]

        from blizzard.storage.s3_listing import ParserFactory, parse_pages_once

        settings = self._settings
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 1},
            connect_timeout=settings.connect_timeout_secs,
            read_timeout=settings.read_timeout_secs,
            max_pool_connections=settings.max_connections,
            # A local endpoint has no DNS names for buckets.
            s3={"addressing_style": "path"} if settings.endpoint_url else None,
        )
        self._session = get_session()
        # botocore's own parsing, above all of times, takes most of the CPU time of a listing.
        factory = ParserFactory(self._session.get_component("response_parser_factory"))
        factory.set_parser_defaults(timestamp_parser=parse_aws_timestamp)
        self._session.register_component("response_parser_factory", factory)
        self._client = self._session.create_client(
            "s3", region_name=settings.region, endpoint_url=settings.endpoint_url, config=config
        )
        parse_pages_once(self._client.meta.events)

    def _connect_obstore(self, bucket: str, client: Any) -> "ObstoreS3Store | None":
        from obstore.auth.boto3 import Boto3CredentialProvider
        from obstore.store import S3Store as ObstoreS3Store

        if self._session.get_credentials() is None:
            return None
        settings = self._settings
        endpoint, region = _endpoint_and_region(client)
        return ObstoreS3Store(
            bucket,
            # As botocore resolved it, profiles included. This option has precedence over the environment.
            aws_endpoint_url_s3=endpoint,
            region=region,
            virtual_hosted_style_request=False,
            credential_provider=Boto3CredentialProvider(self._session, ttl=_CREDENTIALS_TTL),
            retry_config={"max_retries": 0},
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=settings.connect_timeout_secs),
                "read_timeout": timedelta(seconds=settings.read_timeout_secs),
                "timeout": _DOWNLOAD_LIMIT,
                # A dropped idle connection costs the next request a TLS handshake.
                "pool_max_idle_per_host": str(_MAX_IDLE_CONNECTIONS),
            },
        )


def _endpoint_and_region(client: Any) -> tuple[str, str]:
    """As botocore resolved them. Its name of no region in particular is one that other clients do not know."""
    region = client.meta.region_name
    return client.meta.endpoint_url, _DEFAULT_REGION if region == "aws-global" else region
