"""What all functions share: log, metrics, settings, the published configuration, stores and clients.

Created once per container. The import of botocore, and on Lambda its first client, belong to the initialization: until
the first event a function has a whole processor, afterwards a fraction of one. No service is contacted before the first
event.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import botocore.session  # type: ignore[import-untyped]  # noqa: F401 - see above
from aws_lambda_powertools.logging import Logger
from aws_lambda_powertools.metrics import Metrics, MetricUnit
from botocore.config import Config as AwsConfig  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.config.published import PublishedConfig, read_published
from blizzard.dispatch.wake import SendWakeUp, WakeNotSent, Waker, WakeUp
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import Log, first_line
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store, read_text
from blizzard.storage.s3_connection import S3Settings, connection

T = TypeVar("T")

RELOAD_SECS = 300.0
READ_TIMEOUT_SECS = 5.0
"""Short, so that a retry still fits into the function's time."""
METRICS_NAMESPACE = "Blizzard"
MAX_WINDOW_SECS = 900.0
"""SQS's limit for the delay of a message."""
_STACKLEVEL = 3
"""Powertools then logs the location of the caller of FunctionLog, not that of FunctionLog itself."""
_RESERVED_FIELDS = {
    *logging.makeLogRecord({}).__dict__,
    "message",
    "asctime",
    "level",
    "location",
    "timestamp",
    "service",
}


def function_logger(service: str, handler: logging.Handler | None = None) -> Logger:
    """Writes ASCII. Powertools' default writes characters as they are, and drops a line with a character that cannot be
    encoded, such as half of a surrogate pair in an event's key."""
    as_json = partial(json.dumps, default=str, separators=(",", ":"))
    return Logger(service=service, logger_handler=handler, json_serializer=as_json)


class FunctionLog:
    """Powertools' logger as three of Blizzard's logs, by level. A line's location is that of the caller."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def info(self, event: str, /, **fields: object) -> None:
        self._logger.info(event, extra=_named(fields), stacklevel=_STACKLEVEL)

    def warning(self, event: str, /, **fields: object) -> None:
        self._logger.warning(event, extra=_named(fields), stacklevel=_STACKLEVEL)

    def error(self, event: str, /, **fields: object) -> None:
        self._logger.error(event, extra=_named(fields), stacklevel=_STACKLEVEL)


def _named(fields: Mapping[str, object]) -> dict[str, object]:
    """Appends an underscore to names that logging or Powertools reserve, so that no field is lost."""
    return {f"{name}_" if name in _RESERVED_FIELDS else name: value for name, value in fields.items()}


class ReloadingConfig(Generic[T]):
    """An object built from the newest usable configuration. The configuration is read again after RELOAD_SECS."""

    def __init__(self, read: Callable[[], str], build: Callable[[str], T], log_error: Log) -> None:
        self._read = read
        self._build = build
        self._log_error = log_error
        self._known: tuple[str, T] | None = None
        self._checked_ts = 0.0

    def current(self, now_ts: float) -> T:
        """Raises BlizzardError when there is no usable configuration yet."""
        if self._known is None:
            text = self._read()
            self._known = text, self._build(text)
            self._checked_ts = now_ts
        elif now_ts - self._checked_ts >= RELOAD_SECS:
            self._known = self._reloaded(*self._known)
            self._checked_ts = now_ts
        return self._known[1]

    def _reloaded(self, known_text: str, known: T) -> tuple[str, T]:
        """After a broken change the old configuration stays in use."""
        try:
            text = self._read()
            return (text, known if text == known_text else self._build(text))
        except BlizzardError as error:
            self._log_error("config_reload_failed", error=str(error), error_kind=type(error).__name__)
            return known_text, known


@dataclass(frozen=True, slots=True)
class Runtime:
    """Environment, settings and log of one function."""

    environ: Mapping[str, str]
    settings: S3Settings
    log: FunctionLog

    def required(self, name: str) -> str:
        """The value of an environment variable. Raises ConfigError when it is unset or empty."""
        value = self.environ.get(name)
        if not value:
            raise ConfigError([f"{name}: expected a value in the function's environment, found nothing; set it"])
        return value

    def reloading_config(self, build: Callable[[PublishedConfig], T]) -> ReloadingConfig[T]:
        """What `build` makes of the configuration at BLIZZARD_CONFIG. Raises ConfigError when that is not set."""
        uri = self.required("BLIZZARD_CONFIG")
        return ReloadingConfig(
            read=lambda: read_text(uri, self.settings),
            build=lambda text: build(read_published(text, uri)),
            log_error=self.log.error,
        )

    def store(self, uri: str, *, may_be_missing: bool = False) -> ObjectStore:
        """Retries of the store are logged as warnings."""
        return open_store(uri, self.settings, may_be_missing=may_be_missing, log=self.log.warning)

    def client(self, service: str, *, timeout_secs: float = READ_TIMEOUT_SECS, max_attempts: int = 3) -> Any:
        """A new client, with TLS unless AWS_ENDPOINT_URL has another scheme. `max_attempts` includes the first one."""
        config = AwsConfig(
            retries={"mode": "standard", "total_max_attempts": max_attempts},
            connect_timeout=min(timeout_secs, 2.0),
            read_timeout=timeout_secs,
        )
        return connection(self.settings).create_client(service, config)

    def waker(self) -> Waker:
        """Sends to BLIZZARD_WAKE_QUEUE_URL. If it is not set, no wake-up is sent, and only the schedule starts runs.

        Raises ConfigError for a wrong BLIZZARD_WAKE_WINDOW_SECS.
        """
        queue_url = self.environ.get("BLIZZARD_WAKE_QUEUE_URL")
        if not queue_url:
            return Waker(_send_nothing, 1.0, self.log.error)
        window_secs = _window_secs(self.required("BLIZZARD_WAKE_WINDOW_SECS"))
        return Waker(_sender(self, queue_url), window_secs, self.log.error)


def metrics_namespace(environ: Mapping[str, str]) -> str:
    """The template gives each stack its own namespace, so that its alarms see no other stack's metrics."""
    return environ.get("POWERTOOLS_METRICS_NAMESPACE") or METRICS_NAMESPACE


def warm_up(environ: Mapping[str, str]) -> None:
    """Create the first client during Lambda's initialization. Elsewhere it is created when it is needed."""
    if "AWS_LAMBDA_FUNCTION_NAME" in environ:
        _ = connection(_settings(environ)).client


def _settings(environ: Mapping[str, str]) -> S3Settings:
    return replace(S3Settings.from_environment(environ), read_timeout_secs=READ_TIMEOUT_SECS)


def publish_counts(metrics: Metrics, counts: Mapping[str, int]) -> None:
    """Adds the counts by name and writes them to the log, from where CloudWatch reads them."""
    for name, count in counts.items():
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    metrics.flush_metrics()


def make_runtime(environ: Mapping[str, str], log: FunctionLog) -> Runtime:
    """Raises ConfigError."""
    return Runtime(environ, _settings(environ), log)


def _window_secs(text: str) -> float:
    try:
        window_secs = float(text)
    except ValueError:
        window_secs = 0.0
    if not 0 < window_secs <= MAX_WINDOW_SECS:
        expected = f"expected a number of seconds, above 0 and at most {MAX_WINDOW_SECS:g}"
        raise ConfigError([f"BLIZZARD_WAKE_WINDOW_SECS: {expected}, found {text!r}; correct the environment"])
    return window_secs


def _send_nothing(wake: WakeUp, /) -> None:
    pass


def _sender(runtime: Runtime, queue_url: str) -> SendWakeUp:
    """Creates its client for the first wake-up. Makes only two short attempts, since a lost wake-up only delays a
    run."""
    client: Any = None

    def send(wake: WakeUp, /) -> None:
        nonlocal client
        try:
            if client is None:
                client = runtime.client("sqs", timeout_secs=3.0, max_attempts=2)
            client.send_message(
                QueueUrl=queue_url,
                MessageBody=wake.body,
                MessageGroupId=wake.group_id,
                MessageDeduplicationId=wake.deduplication_id,
            )
        except (BotoCoreError, ClientError) as error:
            raise WakeNotSent(
                f"the wake-up of pipeline {wake.pipeline} was not sent ({type(error).__name__}: "
                f"{first_line(str(error))}). The dispatcher's schedule starts the run later. If it repeats, check the "
                "wake queue and its permissions."
            ) from error

    return send
