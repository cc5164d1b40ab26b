"""Campaign `soak`: steady traffic with kills, bad files, failing storage and sweeps, during which nothing grows."""

import gzip
import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from blizzard.state.run_ref import RunRef, decode_ref
from tests.proof import places
from tests.proof.campaign import Failed, Fault, Run
from tests.proof.file_names import RANDOM_NAMES
from tests.proof.job_engines import JOBS_OF
from tests.proof.kill.fork_server import ForkedProcess, ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.soak.job import HEAP
from tests.proof.soak.kill_schedule import KillSchedule, Victim
from tests.proof.soak.place import Grounds, failing_s3, local
from tests.proof.soak.samples import WANTED, Samples
from tests.proof.soak.traffic import FOLDER, LONG, SHORT, SOURCE, Pace, Traffic

COMMIT_SECS = 300.0
"""After which a round that is not committed counts as lost."""
MIB = 1 << 20
MODULES = ("tests.proof.soak.job",)
"""What the fork server imports."""


@dataclass
class _Life:
    """A process and what it logs."""

    process: ForkedProcess
    _read: int = 0

    def news(self) -> list[dict[str, Any]]:
        """What it logged since it was last asked."""
        if not self.process.log.exists():
            return []
        with self.process.log.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0]
        self._read += len(whole) + bool(whole)
        return [json.loads(line) for line in whole.splitlines() if line.startswith(b'{"')]


class _Soak:
    def __init__(
        self, run: Run, grounds: Grounds, jvm: Jvm, fork_server: ForkServer, pace: Pace, stack: ExitStack
    ) -> None:
        self._run = run
        self._grounds = grounds
        self._pace = pace
        self._stack = stack
        self._epoch_ts = self._began_ts = time.time()
        self._traffic = Traffic(grounds.place, self._epoch_ts, pace.day_secs)
        # The job goes on, and sweeps: no `--once`.
        self._once = places.write_config(grounds.place, run.folder / "pipelines.yaml", {FOLDER: dict(pace.settings)})
        self._words = [word for word in self._once if word != "--once"]
        self._fork_server = fork_server
        self._jvm = jvm
        self._engines = cycle(_engines(run.variant))
        self._seen: set[str] = set()
        """Files that commits up to the one before `_next` have."""
        self._next = 0
        self._kill_schedule = KillSchedule(run)
        self._samples = Samples(run.counts)
        self._now = _Life(self._start(self._words, run.variant))

    def round(self, number: int, rng: random.Random) -> None:
        self._await(self._traffic.land(rng, self._run, begun=bool(self._state().get("closed_through"))))
        self._measure()
        self._grounds.forget()
        if who := self._kill_schedule.after(number, rng):
            self._kill(who)
        if number % self._pace.judged_every == self._pace.judged_every - 1:
            self._judge()
        self._run.say(", ".join(self._samples.latest()))

    def end(self) -> None:
        """What no event announced is found by a last job, and everything is compared."""
        self._judge()
        if unjudged := self._samples.unjudged(time.time() - self._began_ts, self._run.counts["rounds"]):
            why = f"never measured often enough to be judged, run it for longer: {', '.join(unjudged)}"
            raise Failed(why, self._steps())
        self._now.process.kill()
        self._now.process.wait()
        self._grounds.be_well()
        last = self._start(self._once, "")
        if (ended := last.wait()) != 0:
            raise Failed(f"the last job ended with {ended}: {last.log.read_text()[-1000:]}", self._steps())
        place = self._grounds.place
        verdict = places.verdict(place, places.source_of(place, FOLDER), places.letters(place, SOURCE))
        self._run.counts["rows compared"] = verdict.rows_out
        if not verdict.good:
            raise Failed("\n".join(verdict.lines()), self._steps())

    def _start(self, words: list[str], variant: str) -> ForkedProcess:
        self._engine = engine = next(self._engines)
        self._with_spark = engine == "spark"
        """Whether the next commits are Spark's, which take two to three times as long as those of the local engine."""
        self._run.counts[JOBS_OF[engine]] += 1
        return self._fork_server.start(
            "tests.proof.soak.job:run_job",
            environment={**self._grounds.place.environment, **self._jvm.environment},
            words=[*words, "--engine", engine],
            variant=variant,
            epoch_ts=self._epoch_ts,
            day_secs=self._pace.day_secs,
        )

    def _kill(self, who: Victim) -> None:
        self._judge()
        self._now.process.kill()
        self._now.process.wait()
        self._run.counts["kills"] += 1
        self._samples.job_begins()
        if who is Victim.SPARK:
            self._jvm.kill()
            self._jvm = self._stack.enter_context(self._grounds.jvm(self._run.folder / "jvm"))
            self._samples.jvm_begins()
            self._run.counts["kills of Spark"] += 1
        self._now = _Life(self._start(self._words, self._run.variant))

    # -- what is measured

    def _await(self, paths: list[str]) -> None:
        """Until commits have them."""
        deadline = time.monotonic() + COMMIT_SECS
        while missing := {*paths} - self._committed():
            if time.monotonic() > deadline:
                said = self._now.process.log.read_text().splitlines()[-5:]
                raise Failed(f"{sorted(missing)} not ingested after {COMMIT_SECS:g} s", [*self._steps(), *said])
            time.sleep(0.02)

    def _committed(self) -> set[str]:
        """The files in the receipts of the commits up to the state beside the table."""
        newest = self._state().get("sequence", -1)
        for number in range(self._next, newest + 1):
            for file in (self._beside / "receipts").glob(f"{number:020d}-*"):
                receipt = json.loads(gzip.decompress(file.read_bytes()))
                self._seen.update(line["path"] for line in receipt["files"])
        self._next = max(self._next, newest + 1)
        return self._seen

    def _state(self) -> dict[str, Any]:
        return self._read_copy()[0]

    def _read_copy(self) -> tuple[dict[str, Any], int]:
        """The state beside the table and its size in bytes; empty while there is none, or while it is being written."""
        try:
            text = self._copy.read_bytes()
            return json.loads(text), len(text)
        except (FileNotFoundError, ValueError):
            return {}, 0

    def _whole_copy(self) -> tuple[dict[str, Any], int]:
        """Once it is written, if somebody is about it; empty while there is none."""
        deadline = time.monotonic() + COMMIT_SECS
        while not (found := self._read_copy())[0] and self._copy.exists():
            if time.monotonic() > deadline:
                raise Failed(f"{self._copy.name} not readable for {COMMIT_SECS:g} s", self._steps())
            time.sleep(0.002)
        return found

    @property
    def _copy(self) -> Path:
        return self._grounds.table / f"{places.prefix_of(SOURCE)}_checkpoint.json"

    def _measure(self) -> None:
        process, jvm, note = self._now.process, self._jvm.group, self._samples.note
        for event in self._now.news():
            if event["event"] == "batch_committed":
                self._run.counts["commits"] += 1
                by = "" if self._with_spark else " of the local engine"
                note(f"time of a commit{by}", event["secs"]["total"] * 1000)
                note("time of looking up suspects", event["secs"].get("suspects", 0.0) * 1000)
            elif event["event"] == "source_failed":
                self._run.counts["turns of a job that failed"] += 1
            elif event["event"] == "spark_needed" and not self._with_spark:
                self._with_spark = True
                self._judge()
                self._samples.job_begins()  # the connections to Spark stay open
            elif event["event"] == HEAP:
                note("live heap of the JVM", event["mib"])
        note("memory of the driver", _resident_mib(process.pid))
        note("number of open files", _open_files(process.pid) - _connections(process.pid))
        note("number of connections", _connections(process.pid))
        if self._engine == "spark":  # an idle one does not grow, and is small until it has work
            note("memory of the JVM", _resident_mib(jvm))
            note("number of open files of the JVM", _open_files(jvm))
        state, size = self._whole_copy()
        if state:
            note("size of the state", size)
            note("number of partitions in the state", len(state["partition_watermarks"]))
            self._measure_ledger([decode_ref(ref) for ref in state.get("ledger", ())])
        sizes = [*_sizes(self._beside / "pending", "*.json")]
        note("number of segments", len(sizes))
        note("size of the manifest", sum(sizes))

    def _measure_ledger(self, runs: list[RunRef]) -> None:
        """`runs`: those that the state names. Others may be on storage, too, until they are deleted."""
        self._samples.note("number of runs of the ledger", len(runs))
        if files := sum(run.files for run in runs):
            stored = sum(_sizes(self._beside / "ledger", "*.run"))
            self._samples.note("bytes of the ledger per file", stored / files)

    @property
    def _beside(self) -> Path:
        return self._grounds.table / places.prefix_of(SOURCE)

    def _judge(self) -> None:
        if grown := self._samples.grown():
            raise Failed("\n".join(grown), self._steps())

    def _steps(self) -> list[str]:
        return [f"seed {self._run.seed}, {self._run.counts['rounds']} rounds, {self._run.counts['kills']} kills"]


def _resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def _open_files(pid: int) -> int:
    """With connections."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _connections(pid: int) -> int:
    found = 0
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += str(file.readlink()).startswith("socket:")
    return found


def _sizes(folder: Path, names: str) -> Iterator[int]:
    """Of its files with such names, some of which may just go."""
    for file in folder.glob(names):
        try:
            yield file.stat().st_size
        except FileNotFoundError:
            continue


SLOWER_LOCALLY = "each commit of the local engine takes longer than the one before"
LONG_ONLY = frozenset(
    {
        SLOWER_LOCALLY,
        "the JVM keeps a quarter of a MiB after each commit",
        "the JVM keeps a file open after each commit",
        "each commit takes longer than the one before",
        "each look-up of suspects takes longer than the one before",
        "each merge of the ledger takes all of it, and what was merged stays",
        "each commit takes 1.5 ms longer than the one before",
    }
)
"""Variants that take minutes to find: fewer rounds show nothing about a JVM or about times."""


class Soak:
    name = "soak"
    about = (
        "steady traffic with kills, bad files, failing storage and sweeps: memory, state, open files, segments and "
        "times do not grow"
    )
    variants: Mapping[str, Fault] = {
        "memory is kept after each commit": Fault("memory of the driver grows", "(?m)^memory of the driver grows"),
        "a file stays open after each commit": Fault("number of open files grows", "(?m)^number of open files grows"),
        "the JVM keeps a file open after each commit": Fault(
            "number of open files of the JVM grows", "(?m)^number of open files of the JVM grows"
        ),
        "segments are not trimmed": Fault("number of segments grows", "(?m)^number of segments grows"),
        "the state keeps the names of ingested files": Fault("size of the state grows", "(?m)^size of the state grows"),
        "runs of the ledger are never merged": Fault(
            "number of runs of the ledger grows", "(?m)^number of runs of the ledger grows"
        ),
        "each merge of the ledger takes all of it, and what was merged stays": Fault(
            "bytes of the ledger per file grow", "(?m)^bytes of the ledger per file grows"
        ),
        "each look-up of suspects takes longer than the one before": Fault(
            "time of looking up suspects grows", "(?m)^time of looking up suspects grows"
        ),
        "no partition is ever closed": Fault(
            "number of partitions in the state grows", "(?m)^number of partitions in the state grows"
        ),
        "each commit takes longer than the one before": Fault("time of a commit grows", "(?m)^time of a commit grows"),
        SLOWER_LOCALLY: Fault(
            "time of a commit of the local engine grows", "(?m)^time of a commit of the local engine grows"
        ),
        "every fifth commit leaves a data file out": Fault(
            "records of files that the state names as finished are in no row", r"(?m)^missing +[1-9]"
        ),
        "each commit takes 1.5 ms longer than the one before": Fault(
            "time of a commit grows, over hundreds of them",
            r"(?m)^time of a commit grows.* over ([3-9]\d\d|\d{4,}) samples",
        ),
        # Last, since it gets all of the time that the others have left.
        "the JVM keeps a quarter of a MiB after each commit": Fault(
            "live heap of the JVM grows", "(?m)^live heap of the JVM grows"
        ),
    }

    wanted = (
        "kills",
        "kills of Spark",
        "faults",
        "broken files",
        "events withheld",
        RANDOM_NAMES,
        *JOBS_OF.values(),
        *WANTED,
    )

    def run(self, run: Run) -> None:
        """Over S3 that fails now and then; what is broken on purpose shows sooner on local files."""
        with ExitStack() as stack:
            if run.variant:
                grounds = local(run.folder)
            else:
                grounds = stack.enter_context(failing_s3(run.folder, run.seed, run.counts))
            fork_server = stack.enter_context(ForkServer(run.folder / "processes", MODULES))
            soak(run, grounds, stack.enter_context(grounds.jvm(run.folder / "jvm")), fork_server)


def soak(run: Run, grounds: Grounds, jvm: Jvm, fork_server: ForkServer) -> None:
    """`jvm`: the first one; it is not the last if it gets killed."""
    pace = SHORT if run.budget.rounds is not None or run.variant else LONG
    with ExitStack() as stack:
        table = _Soak(run, grounds, jvm, fork_server, pace, stack)
        for number, rng in run.rounds():
            table.round(number, rng)
        table.end()


def _engines(variant: str) -> Sequence[str]:
    """Of the jobs, in turn. Nearly all that is broken on purpose is a part of the engine Spark, or of its JVM."""
    if not variant:
        return ("spark", "auto", "spark")
    return ("auto",) if variant == SLOWER_LOCALLY else ("spark",)


CAMPAIGN = Soak()
