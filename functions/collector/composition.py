"""What the collector is made of: from the environment to routes and manifests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blizzard.collect import CollectResult, Message, collect
from blizzard.config import Config, parse_config
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import Log
from blizzard.manifest import Entry, Manifest
from blizzard.pattern import Pattern
from blizzard.routing import Route, Router
from blizzard.storage.open import open_store, read_text
from blizzard.storage.s3_connection import S3Settings

RELOAD_SECS = 300.0
READ_TIMEOUT_SECS = 5.0
"""A segment is small: who hears nothing for so long is better off asking again, well within the function's own time."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What one version of the configuration asks for. Manifests by source id."""

    router: Router
    manifests: Mapping[str, Manifest]


class Collector:
    """Collects with the newest configuration that could be used, looked up again when older than RELOAD_SECS."""

    def __init__(self, read: Callable[[], str], build: Callable[[str], Setup], log_error: Log) -> None:
        self._read = read
        self._build = build
        self._log_error = log_error
        self._text = ""
        self._setup: Setup | None = None
        self._looked_ts = 0.0

    def collect(self, messages: Iterable[Message], *, writer_id: str, now_ts: float) -> CollectResult:
        """Raises BlizzardError when there is no usable configuration yet; messages then stay in the queue."""
        setup = self._current(now_ts)

        def append(source_id: str, entries: Sequence[Entry]) -> int:
            return setup.manifests[source_id].append(entries, writer_id=writer_id, now_ts=now_ts)

        return collect(messages, setup.router, append)

    def _current(self, now_ts: float) -> Setup:
        if self._setup is None:
            self._setup = self._load(self._read())
            self._looked_ts = now_ts
        elif now_ts - self._looked_ts >= RELOAD_SECS:
            self._setup = self._reloaded(self._setup)
            self._looked_ts = now_ts
        return self._setup

    def _reloaded(self, known: Setup) -> Setup:
        """A broken change must not stop what works: the file that is in use stays in use."""
        try:
            text = self._read()
            return known if text == self._text else self._load(text)
        except BlizzardError as error:
            self._log_error("config_reload_failed", error=str(error), error_kind=type(error).__name__)
            return known

    def _load(self, text: str) -> Setup:
        setup = self._build(text)
        self._text = text
        return setup


def make_collector(environ: Mapping[str, str], *, log_warning: Log, log_error: Log) -> Collector:
    """Raises ConfigError when BLIZZARD_CONFIG is not set. Nothing is read before the first batch."""
    config_uri = environ.get("BLIZZARD_CONFIG")
    if not config_uri:
        raise ConfigError(["BLIZZARD_CONFIG: expected path or s3:// URI of the configuration, found nothing; set it"])
    settings = replace(S3Settings.from_environment(environ), read_timeout_secs=READ_TIMEOUT_SECS)
    return Collector(
        read=lambda: read_text(config_uri, settings),
        build=lambda text: make_setup(
            parse_config(text, environ, name=config_uri, folder=_folder_of(config_uri)), settings, log_warning
        ),
        log_error=log_error,
    )


def make_setup(config: Config, settings: S3Settings, log: Log) -> Setup:
    """`log` hears of storage that had to be asked twice."""
    sources = list(config.sources())
    stores = {
        pipeline.name: open_store(pipeline.table_uri, settings, may_be_missing=True, log=log) for pipeline, _ in sources
    }
    return Setup(
        Router(Route(source.id, source.uri, Pattern(source.pattern).matches) for _, source in sources),
        {source.id: Manifest(stores[pipeline.name], source.state_prefix, source.id) for pipeline, source in sources},
    )


def _folder_of(config_uri: str) -> str | None:
    """Where relative paths in the configuration start; None on S3, which has none."""
    return None if "://" in config_uri else str(Path(config_uri).absolute().parent)
