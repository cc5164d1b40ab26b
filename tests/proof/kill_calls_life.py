"""Lives that need no JVM: a collector, a sweeper, a dispatcher or a job over local files, killed between any two calls.

The job's table is a log of files, too: a commit is one file that is created exclusively, as Delta's is.
"""

import json
import os
import random
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import spark_job.ingest
from blizzard.batch import OnOverwrite
from blizzard.collect import Message, collect
from blizzard.dead_letters import DeadLetters
from blizzard.delta_log import Commit
from blizzard.dispatch.decide import Policy
from blizzard.dispatch.dispatcher import Dispatcher, Logs
from blizzard.dispatch.service import Life, RunState
from blizzard.errors import AlreadyExists, CommitOutcomeUnknown, LostRace
from blizzard.identity import Identity, read_copy
from blizzard.log import silent
from blizzard.manifest import Manifest
from blizzard.published import PublishedPipeline
from blizzard.routing import Route, Router
from blizzard.storage.base import ObjectInfo, ObjectReader, ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.sweep import Kind
from blizzard.sweeping import SourceSweep
from spark_job.ingest import Ingest
from spark_job.recovery import Recovered
from spark_job.timing import Stopwatch
from tests.proof.race_names import OVERWRITING_LOG, TXN_NOT_COMPARED, UNCONDITIONAL_PUT
from tests.unit import fakes
from tests.unit.dispatch_world import published_source
from tests.unit.fakes import MemoryDelta, MemoryReader, MemoryTable, Row

T = TypeVar("T")

IDENTITY = Identity("events", "landing", "_blizzard/events_landing")
BUCKET, PREFIX = "landing", "raw/"
SETTINGS = fakes.settings(
    interval_files=4,
    interval_bytes=250,
    settle_delay_secs=0.0,
    late_overlap_secs=60.0,
    on_overwrite=OnOverwrite.REPLACE,
    max_attempts=100,
)
POLICY = Policy(max_failures=1_000_000, backoff_secs=0.0, max_backoff_secs=0.0)
NO_TXN = "rows are committed without their Txn"
NO_LOOK = "a commit is tried again without a look at what became of it"
OLDER_STATE = "an older state is taken for the current one"
MARKS_ALONE = "a watermark passes a file that is in no segment"
TWO_RUNS = "a start's token is not honoured, and nobody looks for a run"


class Steps:
    """Counts the calls of one life. At the `nth` it dies, before the effect or after it; 0: never. Before each it waits
    up to `pause_secs`, so that others come in between."""

    def __init__(self, who: str, nth: int, *, after: bool, pause_secs: float, seed: str) -> None:
        self.count = 0
        self._pause_secs = pause_secs
        self._rng = random.Random(seed)
        self._who = who
        self._nth = nth
        self._after = after

    def __call__(self, name: str, effect: Callable[[], T]) -> T:
        self.count += 1
        if self._pause_secs:
            time.sleep(self._rng.uniform(0, self._pause_secs))
        due = self.count == self._nth
        if due and not self._after:
            self._die(f"before {name}")
        answer = effect()
        if due:
            self._die(f"after {name}")
        return answer

    def _die(self, where: str) -> None:
        print(json.dumps({"event": "died", "who": self._who, "where": where}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class SteppedStore:
    """A store each of whose calls is a step; a listing is one."""

    def __init__(self, store: ObjectStore, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        found = self._store.list(prefix, start_after=start_after, recursive=recursive)
        return iter(self._steps(f"list {_kind(prefix)}", lambda: [*found]))

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        found = self._store.list_folders(prefix, start_after=start_after)
        return iter(self._steps("list_folders", lambda: [*found]))

    def head(self, key: str) -> ObjectInfo | None:
        return self._steps(f"head {_kind(key)}", lambda: self._store.head(key))

    def get(self, key: str) -> bytes:
        return self._steps(f"get {_kind(key)}", lambda: self._store.get(key))

    def open(self, key: str) -> AbstractContextManager[ObjectReader]:
        return self._steps(f"open {_kind(key)}", lambda: self._store.open(key))

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._steps(f"create {_kind(key)}", lambda: self._store.create(key, data))

    def put(self, key: str, data: bytes) -> ObjectInfo:
        return self._steps(f"put {_kind(key)}", lambda: self._store.put(key, data))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._steps(f"delete {_kind(key)}", lambda key=key: self._store.delete([key]))  # type: ignore[misc]


def _kind(key: str) -> str:
    """What an object is, without its number or name."""
    found = re.search(r"_blizzard/(?:events_landing[/_])?([a-z_]+)", key)
    return found[1] if found else "commit" if key.endswith(".commit") else "file"


class MarksAlone(SteppedStore):
    """Of a sweep's segment only the marks arrive."""

    def create(self, key: str, data: bytes) -> ObjectInfo:
        document = json.loads(data) if "/pending/" in key else {}
        if document.get("sweep"):
            data = json.dumps({**document, "entries": []}).encode()
        return super().create(key, data)


class Unconditional(SteppedStore):
    """Whoever writes a segment second wins."""

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self.put(key, data) if "/pending/" in key else super().create(key, data)


# -- the table


class FileDelta(MemoryDelta):
    """A log of commits in files, and what they left. `lose`: the answer of a commit gets lost now and then."""

    def __init__(self, store: ObjectStore, rng: random.Random | None = None, variant: str = "") -> None:
        super().__init__()
        self._store = store
        self._rng = rng
        self._variant = variant

    def load(self) -> None:
        """What others have committed."""
        known = f"{len(self.commits) - 1:020d}.commit" if self.commits else ""
        for info in [*self._store.list(start_after=known)]:
            document = json.loads(self._store.get(info.key))
            gone = set(document["without"])
            self.rows = [row for row in self.rows if row.path not in gone] + [Row(*row) for row in document["rows"]]
            self.commits.append(Commit(len(self.commits), document["txns"], document["user_metadata"], None))

    def create(self) -> None:
        self.load()

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
    ) -> None:
        rows, gone = [*added], [*without]
        if self._variant == NO_TXN and rows:
            self._commit(rows, {}, None, gone)
            rows, gone = [], []
        try:
            self._commit(rows, {app_id: sequence}, user_metadata, gone)
            self._lose_the_answer()
        except CommitOutcomeUnknown:
            if self._variant != NO_LOOK:
                raise
            state = json.dumps({**json.loads(user_metadata or "{}"), "sequence": sequence + 1})
            self._commit(rows, {app_id: sequence + 1}, state, gone)

    def _lose_the_answer(self) -> None:
        if self._rng is not None and self._rng.random() < 0.2:
            raise CommitOutcomeUnknown("the answer was lost")

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        return self._variant != TXN_NOT_COMPARED and super()._has_txn(app_id, sequence)

    def _commit(self, rows: list[Row], txns: dict[str, int], user_metadata: str | None, gone: list[str]) -> None:
        self.load()
        if any(self._has_txn(app_id, sequence) for app_id, sequence in txns.items()):
            return
        fields = [list(asdict(row).values()) for row in rows]
        text = json.dumps({"txns": txns, "user_metadata": user_metadata, "without": gone, "rows": fields})
        while True:
            before = len(self.commits)
            try:
                write = self._store.put if self._variant == OVERWRITING_LOG else self._store.create
                write(f"{before:020d}.commit", text.encode())
            except AlreadyExists as error:
                self.load()
                if self._variant != TXN_NOT_COMPARED and any(
                    app_id in commit.txns for app_id in txns for commit in self.commits[before:]
                ):
                    raise LostRace("another commit of the same source came first") from error
                continue
            self.load()
            return


class _Loading(fakes.Calls):
    """Before the table is asked anything it takes over what others have committed; before the reader, nothing."""

    def __init__(self, delta: FileDelta) -> None:
        super().__init__()
        self._delta = delta

    def __call__(self, name: str) -> None:
        if name != "read":
            self._delta.load()


# -- the service of runs


@dataclass(frozen=True, slots=True)
class FileService:
    """Runs as files: a start creates one by its token, as EMR Serverless does it."""

    store: ObjectStore
    steps: Steps
    variant: str = ""
    fingerprint: str = "release-1"

    def start(self, pipeline: str, client_token: str) -> str:
        run_id = secrets.token_hex(8) if self.variant == TWO_RUNS else re.sub(r"[^A-Za-z0-9]", "-", client_token)

        def effect() -> str:
            with suppress(AlreadyExists):  # the original run, whatever has become of it
                self.store.create(f"{run_id}.run", json.dumps({"life": Life.ACTIVE, "pipeline": pipeline}).encode())
            return run_id

        return self.steps("StartJobRun", effect)

    def state(self, run_id: str) -> RunState | None:
        def effect() -> RunState | None:
            life = runs(self.store).get(run_id)
            return None if life is None else RunState(life, str(life))

        return self.steps("GetJobRun", effect)

    def active(self, pipeline: str) -> str | None:
        if self.variant == TWO_RUNS:
            return None
        return self.steps("ListJobRuns", lambda: next(iter(active_runs(self.store)), None))


def runs(store: ObjectStore) -> dict[str, Life]:
    names = [info.key for info in store.list() if info.key.endswith(".run")]
    return {name[:-4]: Life(json.loads(store.get(name))["life"]) for name in names}


def active_runs(store: ObjectStore) -> list[str]:
    return [run_id for run_id, life in runs(store).items() if life is Life.ACTIVE]


def end_run(store: ObjectStore, run_id: str, life: Life) -> None:
    store.put(f"{run_id}.run", json.dumps({"life": life, "pipeline": IDENTITY.pipeline}).encode())


# -- who lives


@dataclass(frozen=True, slots=True)
class Folders:
    landing: ObjectStore
    state: ObjectStore
    delta: ObjectStore
    service: ObjectStore

    @classmethod
    def of(cls, folder: Path) -> "Folders":
        names = ("landing", "state", "delta", "service")
        return cls(*(LocalStore(folder / name, may_be_missing=True) for name in names))


def live(
    who: str,
    folder: str,
    seed: str,
    variant: str,
    messages: list[list[str]],
    nth: int = 0,
    after: bool = False,
    pause_secs: float = 0.0,
    begin_ts: float = 0.0,
) -> int:
    """One life; `nth` and `pause_secs` as in Steps. A collector gets `messages` and says which it could not serve.
    `begin_ts`: when it begins, so that several begin together."""
    time.sleep(max(0.0, begin_ts - time.time()))
    os.fsync = lambda fd: None  # SIGKILL takes nothing from a file that the kernel has
    folders, steps = Folders.of(Path(folder)), Steps(who, nth, after=after, pause_secs=pause_secs, seed=seed)
    broken = {MARKS_ALONE: MarksAlone, UNCONDITIONAL_PUT: Unconditional}
    state: ObjectStore = broken.get(variant, SteppedStore)(folders.state, steps)
    landing = SteppedStore(folders.landing, steps)
    if who == "collector":
        _collect(state, messages)
    elif who in ("sweeper", "late sweeper"):
        kind = Kind.LATE if who == "late sweeper" else Kind.WATERMARK
        SourceSweep(IDENTITY, landing, state, SETTINGS.sweep_rules, time.time, _new_id, silent).sweep(kind)
    elif who == "dispatcher":
        _dispatch(state, FileService(folders.service, steps, variant))
    else:
        answers = random.Random(seed) if nth or not pause_secs else None
        _ingest(landing, state, FileDelta(SteppedStore(folders.delta, steps), answers, variant), variant)
    print(json.dumps({"event": "ended", "calls": steps.count}), flush=True)
    return 0


def _new_id() -> str:
    return secrets.token_hex(8)


def _collect(state: ObjectStore, messages: list[list[str]]) -> None:
    manifest = Manifest(state, IDENTITY.state_prefix, IDENTITY.source_id)
    router = Router([Route(IDENTITY.source_id, f"s3://{BUCKET}/{PREFIX}", lambda path: path.endswith(".txt"))])
    result = collect(
        [Message(message_id, body) for message_id, body in messages],
        router,
        lambda _, entries: manifest.append(entries, writer_id=_new_id(), now_ts=time.time()),
    )
    print(json.dumps({"event": "collected", "failed": list(result.failed_message_ids)}), flush=True)


def _dispatch(state: ObjectStore, service: FileService) -> None:
    pipeline = PublishedPipeline(IDENTITY.pipeline, state.uri, 0.0, (published_source(on_overwrite="replace"),))
    found = Dispatcher(
        pipeline,
        store=state,
        service=service,
        policy=POLICY,
        clock=time.time,
        new_id=_new_id,
        log=Logs(silent, silent, silent),
    ).dispatch()
    if found.error is not None:
        raise found.error


def _ingest(landing: ObjectStore, state: ObjectStore, delta: FileDelta, variant: str) -> None:
    calls = _Loading(delta)
    letters = DeadLetters(state, IDENTITY.state_prefix, IDENTITY.source_id)
    if variant == OLDER_STATE:
        _recover_from_the_copy()
    totals = Ingest(
        IDENTITY,
        SETTINGS,
        table=MemoryTable(delta, IDENTITY, calls),
        reader=MemoryReader(landing, letters, IDENTITY.source_id, time.time, calls),  # type: ignore[arg-type]
        state=state,
        source=landing,
        clock=time.time,
        watch=Stopwatch(time.monotonic),
        new_id=_new_id,
        sleep=lambda secs: time.sleep(min(secs, 0.001)),
        log=_say_commits,
    ).drain()
    print(json.dumps({"event": "drained", "commits": totals.commits, "lost_races": totals.lost_races}), flush=True)


def _say_commits(event: str, /, **fields: Any) -> None:
    """What the job believes to have committed: the receipt of the last batch that it read."""
    if event in ("batch_read", "batch_committed"):
        print(json.dumps({"event": event, "receipt": fields.get("receipt")}), flush=True)


def _recover_from_the_copy() -> None:
    whole = spark_job.ingest.recover

    def recover(table: Any, store: Any, identity: Identity, **more: Any) -> Recovered:
        found = whole(table, store, identity, **more)
        copy = read_copy(store, identity)
        return found if copy is None else replace(found, checkpoint=replace(copy, sequence=found.checkpoint.sequence))

    spark_job.ingest.recover = recover
