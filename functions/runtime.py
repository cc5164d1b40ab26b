"""What every function is made of: its log, its settings, the published configuration, its stores and clients.

Made once for the life of a container. botocore is imported here, and on Lambda its first client made, while the
function is initialized: until the first event it has a whole processor, from then on a fraction of one. Nothing is
contacted before that event.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import botocore.session  # type: ignore[import-untyped]  # noqa: F401 - see above
from aws_lambda_powertools.logging import Logger
from botocore.config import Config as AwsConfig  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from blizzard.config.published import Published, read_published
from blizzard.dispatch.wake import SendWake, Wake, WakeNotSent, Waker
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import Log, first_line
from blizzard.storage.base import ObjectStore
from blizzard.storage.open import open_store, read_text
from blizzard.storage.s3_connection import S3Settings, connection

T = TypeVar("T")

RELOAD_SECS = 300.0
READ_TIMEOUT_SECS = 5.0
"""Whoever hears nothing for so long is better off asking again, well within the function's own time."""
METRICS_NAMESPACE = "Blizzard"
MAX_WINDOW_SECS = 900.0
"""SQS delays no message for longer."""
_CALLER = 3
"""Frames up from Powertools' logger."""
_TAKEN = {*logging.makeLogRecord({}).__dict__, "message", "asctime", "level", "location", "timestamp", "service"}


def function_logger(service: str, handler: logging.Handler | None = None) -> Logger:
    """Lines of ASCII. By itself Powertools writes each character as it is, and loses the line of one that has no bytes,
    such as half of a surrogate pair in an event's key."""
    as_json = partial(json.dumps, default=str, separators=(",", ":"))
    return Logger(service=service, logger_handler=handler, json_serializer=as_json)


class FunctionLog:
    """Powertools' logger as three of Blizzard's logs, by level. A line's location is that of who called."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger

    def info(self, event: str, /, **fields: object) -> None:
        self._logger.info(event, extra=_named(fields), stacklevel=_CALLER)

    def warning(self, event: str, /, **fields: object) -> None:
        self._logger.warning(event, extra=_named(fields), stacklevel=_CALLER)

    def error(self, event: str, /, **fields: object) -> None:
        self._logger.error(event, extra=_named(fields), stacklevel=_CALLER)


def _named(fields: Mapping[str, object]) -> dict[str, object]:
    """Names that logging or Powertools has for something else get an underscore, so that nothing is lost."""
    return {f"{name}_" if name in _TAKEN else name: value for name, value in fields.items()}


class Configured(Generic[T]):
    """What was built from the newest configuration that could be used; looked up again when older than RELOAD_SECS."""

    def __init__(self, read: Callable[[], str], build: Callable[[str], T], log_error: Log) -> None:
        self._read = read
        self._build = build
        self._log_error = log_error
        self._known: tuple[str, T] | None = None
        self._looked_ts = 0.0

    def current(self, now_ts: float) -> T:
        """Raises BlizzardError when there is no usable configuration yet."""
        if self._known is None:
            text = self._read()
            self._known = text, self._build(text)
            self._looked_ts = now_ts
        elif now_ts - self._looked_ts >= RELOAD_SECS:
            self._known = self._reloaded(*self._known)
            self._looked_ts = now_ts
        return self._known[1]

    def _reloaded(self, known_text: str, known: T) -> tuple[str, T]:
        """A broken change must not stop what works: the configuration that is in use stays in use."""
        try:
            text = self._read()
            return (text, known if text == known_text else self._build(text))
        except BlizzardError as error:
            self._log_error("config_reload_failed", error=str(error), error_kind=type(error).__name__)
            return known_text, known


@dataclass(frozen=True, slots=True)
class Runtime:
    """The surroundings of one function."""

    environ: Mapping[str, str]
    settings: S3Settings
    log: FunctionLog

    def required(self, name: str) -> str:
        """The environment variable of that name. Raises ConfigError when it is not set."""
        value = self.environ.get(name)
        if not value:
            raise ConfigError([f"{name}: expected a value in the function's environment, found nothing; set it"])
        return value

    def configured(self, build: Callable[[Published], T]) -> Configured[T]:
        """What `build` makes of the configuration that BLIZZARD_CONFIG names. Raises ConfigError if none is named."""
        uri = self.required("BLIZZARD_CONFIG")
        return Configured(
            read=lambda: read_text(uri, self.settings),
            build=lambda text: build(read_published(text, uri)),
            log_error=self.log.error,
        )

    def store(self, uri: str, *, may_be_missing: bool = False) -> ObjectStore:
        """The log hears of storage that had to be asked twice."""
        return open_store(uri, self.settings, may_be_missing=may_be_missing, log=self.log.warning)

    def client(self, service: str, *, timeout_secs: float = READ_TIMEOUT_SECS, max_attempts: int = 3) -> Any:
        """A new client, by TLS unless AWS_ENDPOINT_URL says otherwise; at most `max_attempts` of each call."""
        config = AwsConfig(
            retries={"mode": "standard", "total_max_attempts": max_attempts},
            connect_timeout=min(timeout_secs, 2.0),
            read_timeout=timeout_secs,
        )
        return connection(self.settings).create_client(service, config)

    def waker(self) -> Waker:
        """Of BLIZZARD_WAKE_QUEUE_URL; without it nobody is woken, and the dispatcher's schedule has to do.

        Raises ConfigError.
        """
        queue_url = self.environ.get("BLIZZARD_WAKE_QUEUE_URL")
        if not queue_url:
            return Waker(_nobody, 1.0, self.log.error)
        window_secs = _window_secs(self.required("BLIZZARD_WAKE_WINDOW_SECS"))
        return Waker(_sender(self, queue_url), window_secs, self.log.error)


def metrics_namespace(environ: Mapping[str, str]) -> str:
    """Of what this function counts. The template gives each stack its own, so that its alarms hear of nothing else."""
    return environ.get("POWERTOOLS_METRICS_NAMESPACE") or METRICS_NAMESPACE


def warm_up(environ: Mapping[str, str]) -> None:
    """Make the first client, if this is Lambda's initialization; elsewhere whoever needs it will."""
    if "AWS_LAMBDA_FUNCTION_NAME" in environ:
        _ = connection(_settings(environ)).client


def _settings(environ: Mapping[str, str]) -> S3Settings:
    return replace(S3Settings.from_environment(environ), read_timeout_secs=READ_TIMEOUT_SECS)


def make_runtime(environ: Mapping[str, str], log: FunctionLog) -> Runtime:
    """Raises ConfigError."""
    return Runtime(environ, _settings(environ), log)


def _window_secs(text: str) -> float:
    try:
        window_secs = float(text)
    except ValueError:
        window_secs = 0.0
    if not 0 < window_secs <= MAX_WINDOW_SECS:
        raise ConfigError(
            [f"BLIZZARD_WAKE_WINDOW_SECS: expected seconds above 0, up to {MAX_WINDOW_SECS:g}, found {text!r}"]
        )
    return window_secs


def _nobody(wake: Wake, /) -> None:
    pass


def _sender(runtime: Runtime, queue_url: str) -> SendWake:
    """The client is made when the first wake is sent; two short attempts, for the append is already done."""
    client: Any = None

    def send(wake: Wake, /) -> None:
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
            raise WakeNotSent(f"wake {wake.pipeline}: {type(error).__name__}: {first_line(str(error))}") from error

    return send
