"""What a sweep of a source with a folder for each customer costs, of which few have new files.

Each folder had a file long ago. Then some of them get one each minute, all announced. Sweeper, planner and ledger are
the real ones; files are not read, the storage is in memory, and its requests are counted as S3 counts them.
`python -m benchmarks.ledger.many_folders FOLDERS ACTIVE` prints the result of one simulation as JSON.
"""

import json
import sys
from dataclasses import dataclass
from typing import Any

from benchmarks.ledger import checkpoint_size
from benchmarks.ledger.missed_events import (
    DOLLARS_PER_LIST,
    START_TS,
    SWEEPS_PER_MONTH,
    CountedSource,
    CountedState,
    Job,
    SimulatedClock,
)
from benchmarks.result import Table
from benchmarks.run_options import RunOptions
from benchmarks.suite.subprocess_run import run_module
from benchmarks.verify import WrongResult
from blizzard.log import silent
from blizzard.manifest.segments import Entry, FoundBy
from blizzard.state.identity import SourceIdentity
from blizzard.sweep.rules import SweepRules
from blizzard.sweep.source_sweep import SourceSweep
from blizzard.sweep.sweeper import SweepKind

FOLDERS, ACTIVE = 100_000, 1_000
MINUTES = 5
OLD_SECS = 3 * 86_400.0
BATCH = 20_000
COMMITS = 1_000
CHANGED = (10, 1_000)
"""Folders whose watermarks a commit moves."""


@dataclass(frozen=True, slots=True)
class ManyFolders:
    """`sweeps`: the requests of each sweep; the first one of a source does not know yet that it has many folders, and
    lists all. `checkpoints`: by folders that are active, the figures of the commits."""

    folders: int
    active: int
    sweeps: list[dict[str, int]]
    checkpoints: dict[int, dict[str, float]]

    @property
    def most_requests(self) -> int:
        return max(one["lists"] for one in self.sweeps[1:])

    @property
    def most_metadata_bytes(self) -> float:
        return max(one["user_metadata_max_bytes"] for one in self.checkpoints.values())

    def table(self) -> Table:
        dollars = self.most_requests * SWEEPS_PER_MONTH * DOLLARS_PER_LIST
        gets = max(one["gets"] for one in self.sweeps[1:])
        rows = [
            ("LIST requests of an ordinary sweep, most", f"{self.most_requests:,}"),
            ("of the first sweep of a source", f"{self.sweeps[0]['lists']:,}"),
            ("the ordinary ones a month, one sweep a minute, $", f"{dollars:.0f}"),
            ("GETs of state and ledger, most", f"{gets:,}"),
        ]
        for active, one in self.checkpoints.items():
            kind = f"{active:,} folders change in a commit"
            largest = f"{one['user_metadata_max_bytes']:,.0f}"
            rows.append((f"largest `userMetadata` of a commit, {kind}, bytes", largest))
            rows.append((f"bytes of bases written a commit, {kind}", f"{one['base_bytes_per_commit']:,.0f}"))
        return Table((f"{self.folders:,} folders, {self.active:,} of them active", ""), tuple(rows))


def measure(options: RunOptions) -> ManyFolders:
    folders, active = options.count(FOLDERS, 2_000), options.count(ACTIVE, 20)
    options.report_progress(f"names: sweeping {folders:,} folders")
    sweeps = run_module("benchmarks.ledger.many_folders", folders, active)["sweeps"]
    options.report_progress(f"names: checkpoints of {folders:,} folders")
    commits = options.count(COMMITS, 20)
    sizes = {count: checkpoint_size.measure(folders, min(count, active), commits) for count in CHANGED}
    return ManyFolders(folders, active, sweeps, sizes)


def simulate(folders: int, active: int) -> dict[str, Any]:
    clock, identity = SimulatedClock(), SourceIdentity("events", "landing", "_blizzard/events_landing")
    source, state = CountedSource(clock), CountedState(clock)
    sweep = SourceSweep(identity, source, state, SweepRules(lambda _: True), clock, lambda: "sweeper", silent)
    job = Job(state, identity, clock)
    for first in range(0, folders, BATCH):
        _arrive(source, sweep, clock, 0, range(first, min(first + BATCH, folders)))
        job.commit(sweep)
    clock.now_ts = START_TS + OLD_SECS
    sweeps = []
    for minute in range(1, MINUTES + 1):
        _arrive(source, sweep, clock, minute, range(active))
        job.commit(sweep)
        source.requests.clear()
        state.requests.clear()
        clock.now_ts += 60
        report = sweep.sweep(SweepKind.WATERMARK)
        if report.unannounced:
            raise WrongResult(f"names: expected that all files are known, a sweep found {report.unannounced} new ones")
        sweeps.append({"lists": sum(source.requests.values()), "gets": state.requests["gets"]})
    return {"sweeps": sweeps}


def _arrive(source: CountedSource, sweep: SourceSweep, clock: SimulatedClock, minute: int, numbers: range) -> None:
    infos = (source.add(f"customer={number:06d}/part-{minute:04d}.json") for number in numbers)
    entries = [Entry(info.key, info.size, info.etag, info.modified_ts, FoundBy.EVENT) for info in infos]
    sweep.manifest.append(entries, writer_id="collector", now_ts=clock())


if __name__ == "__main__":
    print(json.dumps(simulate(int(sys.argv[1]), int(sys.argv[2]))))
