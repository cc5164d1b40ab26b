"""How many ordinary sweeps does it take to find files with random names whose events were lost?

100,000 files arrive in 30 folders in 100 minutes; one event in a hundred is lost. Every minute the source is swept, and
what is known is committed. Sweeper, planner and ledger are the real ones; files are not read, the storage is in memory,
and its requests are counted as S3 counts them. `python -m benchmarks.ledger.missed_events FILES REQUESTS` prints the
result of one simulation as JSON.
"""

import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.result import Table
from benchmarks.run_options import RunOptions
from benchmarks.stats import percentile
from benchmarks.suite.subprocess_run import run_module
from benchmarks.verify import WrongResult
from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.merge import LedgerSettings
from blizzard.log import silent
from blizzard.manifest.segments import Entry, FoundBy
from blizzard.state.batch import BatchRules, add_late_files, next_checkpoint, plan_batch
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.state.watermark import no_folder, split_path
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryStore
from blizzard.sweep.rules import UNORDERED_REQUESTS, SweepRules
from blizzard.sweep.source_sweep import SourceSweep
from blizzard.sweep.sweeper import SweepKind

FILES = 100_000
FOLDERS = 30
MINUTES = 100
WARM_UP_MINUTES = 10
"""Until then the ledger does not show yet that the names are in no order, so lost files may take longer."""
LOST_EVERY = 100
PAGE_KEYS = 1_000
START_TS = 1_700_000_000.0
LAST_MINUTES = 10
"""After the last file, so that sweeps find all."""
SWEEPS_PER_MONTH = 43_800
DOLLARS_PER_LIST = 5e-6
COLUMNS = ("`sweep.unordered_requests`", "sweeps until found: p50, max", "LIST requests of a sweep", "$ a month")
SIMULATED = (
    "Storage and clock are simulated. Sweeper, planner and ledger are the real ones. Every file is committed once."
)


class CountedSource(MemoryStore):
    """Counts LIST requests: of the walk through the folders, and of listings of files."""

    def __init__(self, clock: "SimulatedClock") -> None:
        super().__init__(clock, "memory://landing/")
        self.requests: Counter[str] = Counter()
        self.children: Counter[str] = Counter()

    def add(self, path: str) -> ObjectInfo:
        folder = split_path(path)[0]
        self.children[""] += folder not in self.children
        self.children[folder] += 1
        return self.put(path, b"x")

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        self.requests["files"] += 1
        listed = super().list(prefix, start_after=start_after, recursive=recursive)
        for count, info in enumerate(listed):
            self.requests["files"] += count > 0 and count % PAGE_KEYS == 0
            yield info

    def list_folders(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self.requests["folders"] += max(1, -(-self.children[prefix.removesuffix("/")] // PAGE_KEYS))
        yield from super().list_folders(prefix, start_after=start_after)


class CountedState(MemoryStore):
    """Counts GETs."""

    def __init__(self, clock: "SimulatedClock") -> None:
        super().__init__(clock, "memory://lake/")
        self.requests: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.requests["gets"] += 1
        return super().get(key)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        self.requests["gets"] += 1
        return super().get_range(key, start, size)


class SimulatedClock:
    now_ts = START_TS

    def __call__(self) -> float:
        return self.now_ts


class Job:
    """Commits what the manifest has, as the ingest job does, without reading any file."""

    def __init__(self, store: MemoryStore, identity: SourceIdentity, clock: SimulatedClock) -> None:
        self.checkpoint = Checkpoint(identity.pipeline, identity.source)
        self.committed: Counter[str] = Counter()
        self._store = store
        self._identity = identity
        self._clock = clock
        self._rules = BatchRules(no_folder, interval_files=10_000_000)
        self._receipts = Receipts(store, identity.state_prefix)
        self._ledger = LedgerKeeper(
            store,
            identity,
            ask_table=_no_table,
            clock=clock,
            new_id=lambda: f"{self.checkpoint.sequence + 1:08d}",
            log=silent,
            settings=LedgerSettings(in_background=False, parallel_reads=1),
        )

    def commit(self, sweep: SourceSweep) -> None:
        base, ledger = self.checkpoint, self._ledger
        plan = plan_batch(base, sweep.manifest.unconsumed(base.position), self._rules)
        known = ledger.find(base, [entry.path for entry in plan.suspects])
        plan = add_late_files(plan, [entry for entry in plan.suspects if entry.path not in known], self._rules)
        self.committed.update(file.path for file in plan.files)
        refs, etags = ledger.refs(base), {file.path: hashlib.md5(b"x").hexdigest() for file in plan.files}
        lines = [ReceiptLine(file.path, etags[file.path], 1, 1, 0, file.event_ts) for file in plan.files]
        receipt = self._receipts.put(
            sequence=base.sequence + 1, attempt="job", previous=base.receipt, now_ts=self._clock(), lines=lines
        )
        ledger.expect(receipt)
        after = next_checkpoint(plan, {})
        self.checkpoint = replace(after, sequence=base.sequence + 1, receipt=receipt.name, ledger=refs)
        self._store.put(self._identity.copy_key, encode(self.checkpoint).encode())
        sweep.manifest.trim(self.checkpoint.position)


def _no_table(sequences: SequenceRange) -> list[LedgerEntry]:
    raise WrongResult(f"names: expected that the ledger has no gap, found one: {sequences}")


def path_of(number: int) -> str:
    """A random name in one of the folders."""
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return f"customer={int(digest[-8:], 16) % FOLDERS:02}/part-{digest[:32]}.json"


@dataclass(slots=True)
class Simulation:
    """`lost`: path to the minute in which it arrived; `found`: to the minute at whose end a sweep found it."""

    files: int
    sweep: SourceSweep
    source: CountedSource
    state: CountedState
    job: Job
    clock: SimulatedClock
    lost: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    sweeps: list[dict[str, float]] = field(default_factory=list)

    def run_minute(self, minute: int) -> None:
        announced = [*self._arrive(minute)]
        self.clock.now_ts = START_TS + 60 * (minute + 1)
        self.sweep.manifest.append(announced, writer_id="collector", now_ts=self.clock())
        self.sweeps.append(self._sweep_once())
        for item in self.sweep.manifest.unconsumed(self.job.checkpoint.position):
            for entry in item.segment.entries:
                if entry.path in self.lost:
                    self.found.setdefault(entry.path, minute)
        self.job.commit(self.sweep)

    def _arrive(self, minute: int) -> Iterator[Entry]:
        """Returns the events that are not lost."""
        end = self.files * (minute + 1) // MINUTES if minute < MINUTES else 0
        for number in range(self.files * minute // MINUTES, end):
            self.clock.now_ts = START_TS + 60 * number * MINUTES / self.files
            info = self.source.add(path_of(number))
            if number % LOST_EVERY == LOST_EVERY - 1:
                self.lost[info.key] = minute
            else:
                yield Entry(info.key, info.size, info.etag, info.modified_ts, FoundBy.EVENT)

    def _sweep_once(self) -> dict[str, float]:
        lists, gets = self.source.requests, self.state.requests
        lists.clear()
        gets.clear()
        began = time.perf_counter()
        report = self.sweep.sweep(SweepKind.WATERMARK)
        secs = time.perf_counter() - began
        whole = sum(listed.requests for listed in (report.unordered, report.unordered_idle) if listed)
        above = lists["files"] - whole
        return {"walk": lists["folders"], "above": above, "whole": whole, "gets": gets["gets"], "secs": secs}

    def check(self) -> None:
        """Raises WrongResult unless every file was committed once."""
        committed = self.job.committed
        missing, doubled = self.files - len(committed), sum(count > 1 for count in committed.values())
        if missing or doubled or set(self.found) != set(self.lost):
            raise WrongResult(
                f"names: expected {self.files} files committed once, and {len(self.lost)} lost ones found; "
                f"found {missing} missing, {doubled} doubled, and {len(self.found)} of the lost ones"
            )


def simulate(files: int, max_requests: int) -> dict[str, Any]:
    clock, identity = SimulatedClock(), SourceIdentity("events", "landing", "_blizzard/events_landing")
    source, state = CountedSource(clock), CountedState(clock)
    rules = SweepRules(lambda _: True, unordered_requests=max_requests)
    sweep = SourceSweep(identity, source, state, rules, clock, lambda: "sweeper", silent)
    simulation = Simulation(files, sweep, source, state, Job(state, identity, clock), clock)
    for minute in range(MINUTES + LAST_MINUTES):
        simulation.run_minute(minute)
    simulation.check()
    took = {path: simulation.found[path] - arrived + 1 for path, arrived in simulation.lost.items()}
    steady = [took[path] for path, arrived in simulation.lost.items() if arrived >= WARM_UP_MINUTES]
    return {
        "lost": len(took),
        "most_sweeps": max(steady),
        "median_sweeps": percentile(steady, 0.5),
        "most_sweeps_with_warm_up": max(took.values()),
        "most_requests": max(one["whole"] for one in simulation.sweeps),
        "last": simulation.sweeps[MINUTES - 1],
    }


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """By `sweep.unordered_requests`, what each simulation found."""

    files: int
    by_bound: Mapping[int, Mapping[str, Any]]

    @property
    def usual(self) -> Mapping[str, Any]:
        return self.by_bound[UNORDERED_REQUESTS]

    def table(self) -> Table:
        return Table(COLUMNS, tuple(row_of(bound, one) for bound, one in self.by_bound.items()))

    def notes(self) -> tuple[str, ...]:
        what = (
            f"{self.files:,} files with random names arrive in {FOLDERS} folders in {MINUTES} minutes; the events of "
            f"{self.usual['lost']:,} are lost. One sweep a minute, no late sweep. {SIMULATED}"
        )
        return what, last_note(self.usual["last"]), warm_up_note(self.usual["most_sweeps_with_warm_up"])


def measure(options: RunOptions) -> MissedEvents:
    files, found = options.count(FILES, 3_000), {}
    for max_requests in (UNORDERED_REQUESTS // 2, UNORDERED_REQUESTS, UNORDERED_REQUESTS * 2):
        options.report_progress(f"names: lost events, {max_requests} requests a sweep")
        found[max_requests] = run_module("benchmarks.ledger.missed_events", files, max_requests)
    return MissedEvents(files, found)


def row_of(max_requests: int, one: Mapping[str, float]) -> tuple[str, ...]:
    cost = one["most_requests"] * SWEEPS_PER_MONTH * DOLLARS_PER_LIST
    sweeps = f"{one['median_sweeps']:.0f}, {one['most_sweeps']:.0f}"
    return f"{max_requests}", sweeps, f"{one['most_requests']:.0f}", f"{cost:.2f}"


def last_note(last: Mapping[str, float]) -> str:
    return (
        f"The last sweep while files arrived took {last['whole']:.0f} LIST requests for folders in no order. Apart "
        f"from these, it took {last['walk']:.0f} to walk through the folders, {last['above']:.0f} to list them above "
        f"their watermarks, and {last['gets']:.0f} GETs of state and ledger."
    )


def warm_up_note(most_sweeps: float) -> str:
    return (
        f"Without the first {WARM_UP_MINUTES} minutes, in which the ledger may not show yet that the names are in no "
        f"order. With them, the slowest file took {most_sweeps:.0f} sweeps."
    )


if __name__ == "__main__":
    print(json.dumps(simulate(int(sys.argv[1]), int(sys.argv[2]))))
