"""Collectors, sweeper and job over bad storage, without Spark: the product's own code over S3, a table in memory."""

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from blizzard.dead_letters import DeadLetters
from blizzard.errors import BlizzardError, RetryableError
from blizzard.manifest import Entry, Manifest
from blizzard.storage.s3 import S3Settings, S3Store
from tests.proof.bad_storage_proxy import BadStorage
from tests.unit.fakes import Clock, MemoryDelta, MemoryReader, World, settings

LANDING, LAKE = "landing", "lake"
FILES_AT_ONCE = 12
COMMITS_A_JOB = 8
REDELIVERIES = 4


class Unclear(AssertionError):
    """An error that does not say what it is: none of the product's own that storage may cause."""


class _Now(Clock):
    """The time of this machine, as storage has it, moved forward when told to."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def __call__(self) -> float:
        return time.time() + self.now_ts


def impatient(endpoint: str) -> S3Settings:
    return S3Settings(
        endpoint, "us-east-1", max_attempts=4, first_backoff_secs=0.001, max_backoff_secs=0.01, read_timeout_secs=0.3
    )


class StoredWorld(World):
    """One source on S3."""

    def __init__(self, calm_endpoint: str, proxy: BadStorage, delta: MemoryDelta, prefix: str) -> None:
        super().__init__(settings(settle_delay_secs=0.0, interval_files=5, max_attempts=3))
        self.clock = _Now()
        self.delta = delta
        self._proxy = proxy
        self._prefix = prefix
        self._calm, self._bad = impatient(calm_endpoint), impatient(proxy.endpoint)
        self._shipped = S3Settings(proxy.endpoint, "us-east-1")
        self.calm_state = S3Store(LAKE, prefix, self._calm)
        self.calm_source = S3Store(LANDING, prefix, self._calm)
        self.announced: set[str] = set()
        self.go(bad=False)

    def go(self, *, bad: bool, shipped: bool = False) -> None:
        """`bad`: through the proxy from here on, else past it. `shipped`: with the patience that clients have as they
        are, which is some ten seconds for one call that is refused."""
        chosen = (self._shipped if shipped else self._bad) if bad else self._calm
        self.source: S3Store = S3Store(LANDING, self._prefix, chosen)  # type: ignore[assignment]
        self.state: S3Store = S3Store(LAKE, self._prefix, chosen)  # type: ignore[assignment]
        names = (self.identity.state_prefix, self.identity.source_id)
        self.dead_letters = DeadLetters(self.state, *names)
        self.reader = MemoryReader(self.source, self.dead_letters, self.identity.source_id, self.clock, self.calls)

    # -- one round over bad storage

    def arrive_some(self, rng: random.Random, number: str) -> Sequence[Entry]:
        """New files, of which S3 knows for sure."""
        entries = []
        for index in range(FILES_AT_ONCE):
            path = f"p{rng.randrange(3)}/{rng.randrange(16**6):06x}-{number}-{index}.txt"
            data = "".join(f"{path} {row}\n" for row in range(rng.randint(1, 4))).encode()
            info = self.calm_source.put(path, data)
            self.contents[path, info.etag] = data
            entries.append(Entry(path, info.size, info.etag, info.modified_ts))
        return entries

    def collect(self, entries: Sequence[Entry], rng: random.Random) -> None:
        """Two collectors at once. Each is given its message again when it fails, as the queue does, a few times."""
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
        """A job; some of its commits end without an answer, whether they reached the table or not."""
        faults = ["answer lost", "lost"]
        planned = [rng.choice(faults) if rng.random() < rate else "" for _ in range(COMMITS_A_JOB)]
        self.delta.faults[:] = planned
        self.tried("job", self.drain)
        used = planned[: COMMITS_A_JOB - len(self.delta.faults)]
        self.ended["commits without an answer"] += sum(map(bool, used))
        self.delta.faults.clear()

    @property
    def ended(self) -> Counter[str]:
        return self._proxy.plan.counts

    def tried(self, who: str, work: Callable[[], object]) -> bool:
        """Whether it went well. Raises Unclear for errors that bad storage does not explain."""
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
        """What the table has otherwise than the source; empty if it is the same."""
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


def segments_gone_wrong(created: Iterable[tuple[str, bytes]]) -> str:
    """What conditional PUTs may not do: write one number twice, or one append under two numbers."""
    by_path: dict[str, bytes] = {}
    by_append: dict[tuple[str, float], str] = {}
    for path, body in created:
        if "/pending/" not in path:
            continue
        if by_path.setdefault(path, body) != body:
            return f"segment {path} was written twice, by two writers"
        document: Mapping[str, object] = json.loads(body)
        append = (str(document["writer"]), float(str(document["written_ts"])))
        if by_append.setdefault(append, path) != path:
            return f"one append is in two segments, {by_append[append]} and {path}"
    return ""
