"""Collectors, sweeper and job over bad storage, without Spark: the product's own code over S3, a table in memory."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from blizzard.cli.source_status import SourceStatus, source_status
from blizzard.dispatch.service import RunStatus
from blizzard.errors import BlizzardError, RetryableError
from blizzard.ledger.merge import LedgerSettings
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.s3 import S3Settings, S3Store
from tests.proof.bad_storage.dispatch import Runs
from tests.proof.bad_storage.proxy import RUNS, SEGMENTS, BadStorage
from tests.unit.dispatch_world import published_source
from tests.unit.fakes import Clock, MemoryDelta, MemoryReader, World, settings

LANDING, LAKE = "landing", "lake"
FILES_AT_ONCE = 12
COMMITS_A_JOB = 8
REDELIVERIES = 4
STARTS = 8
MOST_RUNS = 20
"""Maximum number of runs over good storage until nothing is pending."""


class Unclear(AssertionError):
    """An error without a clear reason: none of the product's errors for storage."""


class _Now(Clock):
    """The machine's time, as storage reports it, which can be moved forward."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def __call__(self) -> float:
        return time.time() + self.now_ts


def impatient(endpoint: str) -> S3Settings:
    """Timeouts and backoffs for a local proxy. Not used over good storage, where a busy machine must not look like a
    fault."""
    return S3Settings(
        endpoint, "us-east-1", max_attempts=4, first_backoff_secs=0.001, max_backoff_secs=0.01, read_timeout_secs=0.3
    )


FOLDERS = ("", "p0/", "p1/", "p2/")
SMALL_LEDGER = LedgerSettings(commits=2, files=12, factor=2, in_background=False, parallel_reads=4)
"""Jobs write and merge runs all the time, over storage that fails."""


class StoredWorld(World):
    """One source on S3. `honest`: as in Service."""

    def __init__(
        self, calm_endpoint: str, proxy: BadStorage, delta: MemoryDelta, prefix: str, *, honest: bool = True
    ) -> None:
        super().__init__(settings(settle_delay_secs=0.0, interval_files=5, max_attempts=3, ledger=SMALL_LEDGER))
        self.clock = _Now()
        self.delta = delta
        self._proxy = proxy
        self._prefix = prefix
        self._calm, self._bad = S3Settings(calm_endpoint, "us-east-1"), impatient(proxy.endpoint)
        self._shipped = S3Settings(proxy.endpoint, "us-east-1")
        self.calm_state = S3Store(LAKE, prefix, self._calm)
        self.calm_source = S3Store(LANDING, prefix, self._calm)
        self.announced: set[str] = set()
        self.runs = Runs(published_source(), self.clock, honest=honest)
        self.go(bad=False)

    def go(self, *, bad: bool, shipped: bool = False) -> None:
        """`bad`: through the proxy; otherwise directly. `shipped`: with the retries of production, which take some ten
        seconds for one refused call."""
        chosen = (self._shipped if shipped else self._bad) if bad else self._calm
        self.source: S3Store = S3Store(LANDING, self._prefix, chosen)  # type: ignore[assignment]
        self.state: S3Store = S3Store(LAKE, self._prefix, chosen)  # type: ignore[assignment]
        names = (self.identity.state_prefix, self.identity.source_id)
        self.dead_letters = DeadLetters(self.state, *names)
        self.reader = MemoryReader(self.source, self.dead_letters, self.identity.source_id, self.clock, self.calls)

    # -- one round over bad storage

    def arrive_some(self, rng: random.Random, number: str) -> Sequence[Entry]:
        """New files, which S3 is certain to have."""
        entries = []
        for index in range(FILES_AT_ONCE):
            path = f"{rng.choice(FOLDERS)}{rng.randrange(16**6):06x}-{number}-{index}.txt"
            data = "".join(f"{path} {row}\n" for row in range(rng.randint(1, 4))).encode()
            info = self.calm_source.put(path, data)
            self.contents[path, info.etag] = data
            entries.append(Entry(path, info.size, info.etag, info.modified_ts))
        return entries

    def collect(self, entries: Sequence[Entry], rng: random.Random) -> None:
        """Two collectors at once. A message whose collector failed is delivered again a few times, as by the queue."""
        shared = rng.sample(entries, 3)
        halves = [[*entries[:5], *shared], [*entries[5:10], *shared]]
        names = [[f"{self.new_id()}-{again}" for again in range(REDELIVERIES)] for _ in halves]
        with ThreadPoolExecutor(2) as pool:
            done = [*pool.map(self._collected, halves, names)]
        for half, there in zip(halves, done, strict=True):
            self.announced |= {entry.path for entry in half} if there else set()

    def _collected(self, entries: Sequence[Entry], writer_ids: Sequence[str]) -> bool:
        names = (self.identity.state_prefix, self.identity.source_id)
        for writer_id in writer_ids:
            manifest = Manifest(self.state, *names)
            if self.tried("collector", lambda: manifest.append(entries, writer_id=writer_id, now_ts=self.clock())):  # noqa: B023
                return True
        return False

    def sweep_both(self) -> None:
        self.tried("sweeper", self.sweep)
        self.tried("sweeper", self.late_sweep)

    def ingest(self, rng: random.Random, rate: float) -> None:
        """The job of the started run, if there is one. Some of its commits get no response, whether or not they reached
        the table."""
        faults = ["answer lost", "lost"]
        planned = [rng.choice(faults) if rng.random() < rate else "" for _ in range(COMMITS_A_JOB)]
        self.delta.faults[:] = planned
        started = self.runs.service.active_runs()
        well = self.tried("job", self.drain)
        self.runs.service.end(started, RunStatus.SUCCEEDED if well else RunStatus.FAILED)
        used = planned[: COMMITS_A_JOB - len(self.delta.faults)]
        self.ended["commits without an answer"] += sum(map(bool, used))
        self.delta.faults.clear()

    def dispatch_twice(self, rng: random.Random, rate: float) -> None:
        """Two dispatchers at once. Starts fail as requests do: every other one is carried out without a response."""
        before, names = self.runs.service.started, [self.new_id(), self.new_id()]
        self.runs.service.losses[:] = [rng.random() < 0.5 for _ in range(STARTS)] if rate else []

        def dispatch(name: str) -> None:
            self.tried("dispatcher", lambda: self.runs.dispatch(self.state, name))

        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(dispatch, names))
        self.runs.service.losses.clear()
        self.ended["runs of the dispatcher"] += self.runs.service.started - before

    def look(self) -> None:
        """Reads the status, as `blizzard status` does. A sound state must not be reported as unreadable because of bad
        storage."""
        found: list[SourceStatus] = []
        if self.tried("status", lambda: found.append(self.status())) and found[0].problem:
            raise Unclear(f"status: the states are sound, and it says {found[0].problem}")

    def status(self) -> SourceStatus:
        names = {"pipeline": self.identity.pipeline, "source": self.identity.source}
        prefix = self.identity.state_prefix
        return source_status(self.state, **names, state_prefix=prefix, table_uri=self.state.uri, now_ts=self.clock())

    def run_all_that_waits(self) -> None:
        """Over good storage: runs only jobs that the dispatcher starts, until it starts none."""
        for _ in range(MOST_RUNS):
            self.runs.dispatch(self.state, self.new_id())
            if not (started := self.runs.service.active_runs()):
                return
            self.drain()
            self.runs.service.end(started, RunStatus.SUCCEEDED)
        raise Unclear(f"after {MOST_RUNS} runs over good storage the dispatcher still starts another one")

    @property
    def ended(self) -> Counter[str]:
        return self._proxy.plan.counts

    def tried(self, who: str, work: Callable[[], object]) -> bool:
        """Whether the work succeeded. Raises Unclear for errors that bad storage does not explain."""
        try:
            work()
        except RetryableError as error:
            said = str(error)
            if not said or "Traceback" in said:
                raise Unclear(f"{who}: an error without words: {error!r}") from error
            self.ended[f"{who} gave up"] += 1
            return False
        except BlizzardError as error:
            raise Unclear(f"{who}: storage failed for a while, and this was taken for good: {error!r}") from error
        except Exception as error:
            raise Unclear(f"{who}: no error of the product's own: {error!r}") from error
        self.ended[f"{who} ended well"] += 1
        return True

    # -- what must hold

    def missing_though_announced(self) -> set[str]:
        return self.announced - self.files().keys()

    def wrong(self) -> str:
        """Differences between table and source; empty: none."""
        expected = {path: content.decode().splitlines() for (path, _), content in self.contents.items()}
        found = self.files()
        if doubled := self.doubled():
            return f"doubled: {doubled[:5]} and {max(0, len(doubled) - 5)} more"
        if missing := expected.keys() - found.keys():
            return f"lost: {sorted(missing)[:5]} and {max(0, len(missing) - 5)} more"
        if odd := {path for path in found if found[path] != expected.get(path)}:
            return f"other content: {sorted(odd)[:5]}"
        if self.dead_files() or self.dead_records():
            return f"dead letters for good files: {self.dead_files()} {self.dead_records()}"
        return ""


def numbers_gone_wrong(created: Iterable[tuple[str, bytes]]) -> str:
    """Complaints about conditional PUTs: one number written twice, of a segment or a run record, or one append under
    two numbers."""
    by_path: dict[str, bytes] = {}
    by_append: dict[tuple[str, float], str] = {}
    for path, body in created:
        if SEGMENTS not in path and RUNS not in path:
            continue
        if by_path.setdefault(path, body) != body:
            return f"{path} was written twice, by two writers"
        if SEGMENTS not in path:
            continue
        document: Mapping[str, object] = json.loads(body)
        append = (str(document["writer"]), float(str(document["written_ts"])))
        if by_append.setdefault(append, path) != path:
            return f"one append is in two segments, {by_append[append]} and {path}"
    return ""
