"""What the collector is made of: from the published configuration to routes, manifests and whom to wake."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from blizzard.collect.collector import CollectResult, Message, collect
from blizzard.collect.routing import Route, Router
from blizzard.config.published import Published
from blizzard.dispatch.wake import Waker
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.paths.pattern import Pattern
from functions.runtime import Configured, Runtime


@dataclass(frozen=True, slots=True)
class Setup:
    """What one version of the configuration asks for, by source id."""

    router: Router
    manifests: Mapping[str, Manifest]
    pipelines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of a batch, and how many pipelines could not be woken."""

    result: CollectResult
    wakes_failed: int


class Collector:
    """Collects with the newest configuration that could be used, then wakes the pipelines that it appended for."""

    def __init__(self, configured: Configured[Setup], waker: Waker, clock: Callable[[], float]) -> None:
        self._configured = configured
        self._waker = waker
        self._clock = clock

    def collect(self, messages: Iterable[Message], *, writer_id: str) -> Collected:
        """Raises BlizzardError when there is no usable configuration yet; messages then stay in the queue."""
        now_ts = self._clock()
        setup = self._configured.current(now_ts)

        def append(source_id: str, entries: Sequence[Entry]) -> int:
            return setup.manifests[source_id].append(entries, writer_id=writer_id, now_ts=now_ts)

        result = collect(messages, setup.router, append)
        touched = (setup.pipelines[done.draft.source_id] for done in result.appended)
        return Collected(result, self._waker.wake(touched, now_ts=self._clock()))


def make_collector(runtime: Runtime, clock: Callable[[], float]) -> Collector:
    """Raises ConfigError when a setting is missing or wrong. Nothing is read before the first batch."""
    return Collector(runtime.configured(lambda published: make_setup(published, runtime)), runtime.waker(), clock)


def make_setup(published: Published, runtime: Runtime) -> Setup:
    sources = list(published.sources())
    stores = {uri: runtime.store(uri, may_be_missing=True) for uri in {source.table_uri for source in sources}}
    return Setup(
        Router(Route(source.id, source.uri, Pattern(source.pattern).matches) for source in sources),
        {source.id: Manifest(stores[source.table_uri], source.state_prefix, source.id) for source in sources},
        {source.id: source.pipeline for source in sources},
    )
