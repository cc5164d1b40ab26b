"""A pipeline, its storage and a job service in memory. A dispatcher can be interrupted at each of its calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from blizzard.config.published import PublishedPipeline, PublishedSource, PublishedTopics
from blizzard.dispatch import backlog
from blizzard.dispatch.decide import FailurePolicy
from blizzard.dispatch.dispatcher import Dispatcher, DispatchResult, Logs
from blizzard.dispatch.run_records import RunLog, RunRecord
from blizzard.dispatch.service import RunState, RunStatus, ServiceBusy, StartConflict, StartRefused
from blizzard.errors import BlizzardError, NotFound
from blizzard.ledger.settled_files import SettledFiles
from blizzard.log import silent
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry, Position
from blizzard.state.checkpoint import Checkpoint, decode, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.memory import MemoryStore
from tests.unit.fakes import Clock, Crash

T = TypeVar("T")
Action = Callable[[], object]

PIPELINE = "events"
POLICY = FailurePolicy(max_failures=3, backoff_secs=60.0, max_backoff_secs=600.0, run_secs=3600.0)

backlog.PARALLEL_READS = 1
"""So that each call of a store has its place in the order of all calls."""


def published_source(name: str = "landing", *, on_overwrite: str = "dead_letter") -> PublishedSource:
    return PublishedSource(
        pipeline=PIPELINE,
        name=name,
        uri=f"s3://landing/{name}",
        table_uri="memory://store/",
        pattern="**",
        prefix_template=None,
        lookback=1,
        settle_delay_secs=0.0,
        sweep_interval_secs=60.0,
        late_interval_secs=3600.0,
        late_overlap_secs=86_400.0,
        unordered_requests=30,
        quiet_secs=86_400.0,
        inventory=None,
        interval_files=1000,
        interval_bytes=1 << 30,
        max_attempts=8,
        max_backoff_secs=20.0,
        on_overwrite=on_overwrite,
    )


class Steps:
    """Counts calls, and runs planned actions before or after the n-th call."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._before: dict[int, Action] = {}
        self._after: dict[int, Action] = {}

    def plan(self, n: int, action: Action, *, after: bool) -> None:
        (self._after if after else self._before)[n] = action

    def __call__(self, name: str, effect: Callable[[], T]) -> T:
        self.names.append(name)
        n = len(self.names)
        self._before.pop(n, _nothing)()
        try:
            return effect()
        finally:
            self._after.pop(n, _nothing)()


def _nothing() -> None:
    pass


def crash() -> None:
    raise Crash


class SteppedStore:
    """A store whose every call is a step."""

    def __init__(self, store: ObjectStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = self._store.list(prefix, start_after=start_after, recursive=recursive)
        return iter(self._steps(f"list {prefix}", lambda: [*found]))

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        raise NotImplementedError

    def head(self, key: str) -> ObjectInfo | None:
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        return self._steps(f"get {key}", lambda: self._store.get(key))

    def get_range(self, key: str, start: int, size: int) -> bytes:
        raise NotImplementedError

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        raise NotImplementedError

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._steps(f"create {key}", lambda: self._store.create(key, data))

    def put(self, key: str, data: bytes) -> ObjectInfo:
        raise NotImplementedError

    def delete(self, keys: Iterable[str]) -> None:
        gone = [*keys]
        self._steps("delete", lambda: self._store.delete(gone))


@dataclass
class Run:
    """A run of the fake service."""

    run_id: str
    pipeline: str
    status: RunStatus = RunStatus.ACTIVE
    detail: str = "RUNNING"


class FakeService:
    """Like EMR Serverless: a repeated token returns the original run, even if that has failed."""

    def __init__(self) -> None:
        self.fingerprint = "release-1"
        self.runs: dict[str, Run] = {}
        self.tokens: dict[str, str] = {}
        self.start_error: BlizzardError | None = None
        """The error that StartJobRun raises instead of starting a run."""
        self.down = False
        self.most_active = 0

    def start(self, pipeline: str, client_token: str) -> str:
        self._check()
        if client_token in self.tokens:
            return self.tokens[client_token]
        if self.start_error is not None:
            raise self.start_error
        run_id = self.start_by_hand(pipeline)
        self.tokens[client_token] = run_id
        self.most_active = max(self.most_active, len(self.active_runs(pipeline)))
        return run_id

    def start_by_hand(self, pipeline: str = PIPELINE) -> str:
        run_id = f"run{len(self.runs) + 1}"
        self.runs[run_id] = Run(run_id, pipeline)
        return run_id

    def state(self, run_id: str) -> RunState | None:
        self._check()
        run = self.runs.get(run_id)
        return RunState(run.status, run.detail) if run else None

    def active(self, pipeline: str) -> str | None:
        self._check()
        return next(iter(self.active_runs(pipeline)), None)

    def active_runs(self, pipeline: str = PIPELINE) -> list[str]:
        return [run.run_id for run in self.runs.values() if run.pipeline == pipeline and run.status is RunStatus.ACTIVE]

    def _check(self) -> None:
        if self.down:
            raise ServiceBusy("the service is down")


class SteppedService:
    """A service whose every call is a step."""

    def __init__(self, service: FakeService, steps: Steps) -> None:
        self._service = service
        self._steps = steps

    @property
    def fingerprint(self) -> str:
        return self._service.fingerprint

    def start(self, pipeline: str, client_token: str) -> str:
        return self._steps("StartJobRun", lambda: self._service.start(pipeline, client_token))

    def state(self, run_id: str) -> RunState | None:
        return self._steps("GetJobRun", lambda: self._service.state(run_id))

    def active(self, pipeline: str) -> str | None:
        return self._steps("ListJobRuns", lambda: self._service.active(pipeline))


@dataclass
class World:
    """One pipeline. `consume` changes the storage as a job does, as far as a dispatcher can see."""

    sources: tuple[PublishedSource, ...] = (published_source(),)
    topics: tuple[PublishedTopics, ...] = ()
    clock: Clock = field(default_factory=Clock)
    service: FakeService = field(default_factory=FakeService)
    events: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    files: int = 0
    ids: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock)

    def new_id(self) -> str:
        self.ids += 1
        return f"id{self.ids}"

    def log(self, event: str, /, **fields: object) -> None:
        self.events.append((event, fields))

    def logged(self, name: str) -> list[dict[str, object]]:
        return [fields for event, fields in self.events if event == name]

    def dispatch(self, steps: Steps | None = None) -> DispatchResult:
        """By a new dispatcher, as in another container."""
        steps = steps or Steps()
        dispatcher = Dispatcher(
            PublishedPipeline(PIPELINE, "memory://store/", 0.0, self.sources, self.topics),
            store=SteppedStore(self.store, steps),
            service=SteppedService(self.service, steps),
            policy=POLICY,
            clock=self.clock,
            new_id=self.new_id,
            log=Logs(self.log, self.log, self.log),
        )
        return dispatcher.dispatch()

    @property
    def runs(self) -> RunLog:
        return RunLog(self.store, PIPELINE, self.new_id)

    def latest(self) -> RunRecord:
        record = self.runs.latest()
        assert record is not None
        return record

    def manifest(self, source: PublishedSource | None = None) -> Manifest:
        of = source or self.sources[0]
        return Manifest(self.store, of.state_prefix, of.id)

    def land(self, *names: str, source: PublishedSource | None = None, age_secs: float = 0.0) -> None:
        """Append one segment with a file for each name; without names, one file with a new name."""
        self.files += 1
        entries = [
            Entry(name, 10, f"etag-{name}", self.clock.now_ts - age_secs) for name in names or [f"f{self.files:04d}"]
        ]
        self.manifest(source).append(entries, writer_id=self.new_id(), now_ts=self.clock.now_ts)

    def checkpoint(self, source: PublishedSource | None = None) -> Checkpoint:
        of = source or self.sources[0]
        try:
            return decode(self.store.get(f"{of.state_prefix}_checkpoint.json"), pipeline=PIPELINE, source=of.name)
        except NotFound:
            return Checkpoint(PIPELINE, of.name)

    def save(self, checkpoint: Checkpoint, source: PublishedSource | None = None) -> None:
        of = source or self.sources[0]
        self.store.put(f"{of.state_prefix}_checkpoint.json", encode(checkpoint).encode())

    def consume(self, source: PublishedSource | None = None, *, segments: int | None = None) -> None:
        """Commit the pending files. A job that finds only files that were overwritten commits nothing."""
        of = source or self.sources[0]
        checkpoint = self.checkpoint(source)
        settled = SettledFiles(self.store, self.identity(of), checkpoint, silent, parallel=1)
        position, late = checkpoint.position, list[Entry]()
        for count, item in enumerate(self.manifest(source).unconsumed(checkpoint.position)):
            if segments is not None and count >= segments:
                break
            late += settled.judge(item.segment.entries[item.first_entry :]).late
            position = item.position_at(len(item.segment.entries))
        if late:
            self.commit({entry.path: entry.etag for entry in late}, source, position=position)

    def commit(
        self, etags: Mapping[str, str], source: PublishedSource | None = None, *, position: Position | None = None
    ) -> None:
        """A commit of these files (path to etag), with its receipt."""
        of, checkpoint = source or self.sources[0], self.checkpoint(source)
        receipt = Receipts(self.store, of.state_prefix).put(
            sequence=checkpoint.sequence + 1,
            attempt=self.new_id(),
            previous=checkpoint.receipt,
            now_ts=self.clock.now_ts,
            lines=[ReceiptLine(path, etag, 10, 1, 0, self.clock.now_ts) for path, etag in etags.items()],
        )
        committed = replace(checkpoint, sequence=receipt.sequence, receipt=receipt.name)
        self.save(replace(committed, position=position or checkpoint.position), source)

    @staticmethod
    def identity(source: PublishedSource) -> SourceIdentity:
        return SourceIdentity(source.pipeline, source.name, source.state_prefix)

    def finish(self, status: RunStatus = RunStatus.SUCCEEDED, detail: str = "", *, consume: bool | None = None) -> None:
        """End all active runs. A successful run has consumed everything; `consume` overrides that."""
        for run_id in self.service.active_runs():
            if consume if consume is not None else status is RunStatus.SUCCEEDED:
                for source in self.sources:
                    self.consume(source)
            self.service.runs[run_id].status = status
            self.service.runs[run_id].detail = detail or str(status)

    def fail_until_open(self) -> None:
        for _ in range(POLICY.max_failures):
            self.dispatch()
            self.finish(RunStatus.FAILED, "FAILED: boom")
            self.dispatch()
            self.clock.advance(10_000)


def settle_names(world: World, *names: str) -> None:
    """These files are committed. When they land again, they are suspects: they have another content than the table."""
    world.land(*names)
    world.dispatch()
    world.finish()
    world.dispatch()
    world.commit(dict.fromkeys(names, "of another content"))


def refused() -> StartRefused:
    return StartRefused("StartJobRun: AccessDeniedException: not allowed to pass the role")


def conflict() -> StartConflict:
    return StartConflict("StartJobRun: ConflictException: the application is updating")
