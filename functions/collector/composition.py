"""The composition root of the collector function: routes and manifests from the published configuration, and the
waker."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from blizzard.collect.collector import CollectResult, Message, collect
from blizzard.collect.routing import Route, Router
from blizzard.config.published import PublishedConfig, PublishedSource
from blizzard.dispatch.wake import Waker
from blizzard.errors import AccessDenied, BucketMissing, NotFound
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.paths.pattern import Pattern
from blizzard.state.checkpoint import segment_of
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectStore
from functions.runtime import ReloadingConfig, Runtime


@dataclass(frozen=True, slots=True)
class Setup:
    """Built from one version of the configuration."""

    router: Router
    manifests: Mapping[str, "SourceManifest"]
    """By source id."""
    pipelines: Mapping[str, str]
    """Pipeline names by source id."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The result of a batch, and how many pipelines could not be woken."""

    result: CollectResult
    wakes_failed: int


@dataclass(frozen=True, slots=True)
class SourceManifest:
    """The manifest of one source, with the copy of its checkpoint."""

    manifest: Manifest
    store: ObjectStore
    copy_key: str

    def append(self, entries: Sequence[Entry], *, writer_id: str, now_ts: float) -> int:
        floor = 0 if self.manifest.has_appended else self._position()
        return self.manifest.append(entries, writer_id=writer_id, now_ts=now_ts, floor=floor)

    def _position(self) -> int:
        """The segment at which a new process begins to look for the newest one; 0: at the first."""
        try:
            return segment_of(self.store.get(self.copy_key))
        except (NotFound, BucketMissing, AccessDenied):
            return 0


class Collector:
    """Collects with the newest usable configuration, then wakes the pipelines that got segments."""

    def __init__(self, config: ReloadingConfig[Setup], waker: Waker, clock: Callable[[], float]) -> None:
        self._config = config
        self._waker = waker
        self._clock = clock

    def collect(self, messages: Iterable[Message], *, writer_id: str) -> Collected:
        """Raises BlizzardError when there is no usable configuration yet; the messages then stay in the queue."""
        now_ts = self._clock()
        setup = self._config.current(now_ts)

        def append(source_id: str, entries: Sequence[Entry]) -> int:
            return setup.manifests[source_id].append(entries, writer_id=writer_id, now_ts=now_ts)

        result = collect(messages, setup.router, append)
        woken = (setup.pipelines[done.draft.source_id] for done in result.appended)
        return Collected(result, self._waker.wake(woken, now_ts=self._clock()))


def make_collector(runtime: Runtime, clock: Callable[[], float]) -> Collector:
    """Raises ConfigError when a setting is missing or wrong. Reads nothing before the first batch."""
    return Collector(runtime.reloading_config(lambda published: make_setup(published, runtime)), runtime.waker(), clock)


def make_setup(published: PublishedConfig, runtime: Runtime) -> Setup:
    sources = list(published.sources())
    stores = {uri: runtime.store(uri, may_be_missing=True) for uri in {source.table_uri for source in sources}}
    return Setup(
        Router(Route(source.id, source.uri, Pattern(source.pattern).matches) for source in sources),
        {source.id: _manifest(source, stores[source.table_uri]) for source in sources},
        {source.id: source.pipeline for source in sources},
    )


def _manifest(source: PublishedSource, store: ObjectStore) -> SourceManifest:
    identity = SourceIdentity(source.pipeline, source.name, source.state_prefix)
    return SourceManifest(Manifest(store, source.state_prefix, source.id), store, identity.copy_key)
