"""Campaign `race`: jobs of one source and of several pipelines on one table at once, with collectors, sweepers, and
somebody else who optimizes, deletes, restores, appends and changes the schema meanwhile."""

import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from blizzard.environment import temporary_variables
from blizzard.errors import NotFound
from infra.local.processes.server_process import LocalAws, local_aws
from tests.proof import large_file, new_fields, places, widening
from tests.proof.breaks import NARROWER_WINS, OVERWRITING_LOG
from tests.proof.campaign import Failed, Run
from tests.proof.job_engines import JOBS_OF, Racers, find_with_each
from tests.proof.kill.commit_claims import CommitClaim, claimed_commits
from tests.proof.kill.fork_server import ForkedProcess, ForkServer
from tests.proof.kill.jvm import Jvm
from tests.proof.kill.rows_by_spark import NotRead, rows_by_spark
from tests.proof.places import LocalPlace, Place, S3Place
from tests.proof.race import account as race_account
from tests.proof.race import wanted
from tests.proof.race.landing import Landing
from tests.proof.race.names import (
    FORGOTTEN,
    MISSING,
    NOT_SMALLER,
    SMALLER,
    SOURCES,
    TORN,
    UNREADABLE,
    VARIANTS,
    WIDE_SOURCE,
    WIDENED_VARIANTS,
)
from tests.proof.race.overwriting_log import overwriting
from tests.proof.race.shape import MIXES, Meeting, Shape, drawn, smallest
from tests.proof.race.wanted import ALL_WANTED, PLACES, operation_on
from tests.proof.race.widenings import Widenings, widened_races

SETTINGS: dict[str, Any] = {"retries": {"max_attempts": 30, "max_backoff_secs": 1}, **new_fields.ADD}
BATCH_FILES, LARGE_BATCH_FILES = 3, 6
"""The larger batch is that of the waiting job: not all of what it must discard is in the other job's commit."""
IMPATIENT = {"retries": {"max_attempts": 3, "max_backoff_secs": 1}}
"""Timeout for jobs over a broken log: some never finish."""
RACE_SECS = 4.0
"""About the duration of a race; the SQL operations of the other writer are spread over it."""
ALONE_AT_MOST = 4
SHRINK_SECS = 180.0
"""No further attempt at a smaller failing race begins after so many seconds."""


LONG_ONLY = frozenset({OVERWRITING_LOG, NARROWER_WINS})
"""Of Spark the first needs a JVM of its own, whose whole log is broken. `tests/crash` shows the same of Delta's log
store in seconds. With the second, jobs wait for each other for many seconds."""


@dataclass(frozen=True, slots=True)
class _Running:
    """`source_id` and `engine` of a job; of others they are empty."""

    who: str
    process: ForkedProcess
    source_id: str = ""
    engine: str = ""


@dataclass
class _Race:
    """One table, from its first commit on. `folder`: for other files."""

    run: Run
    place: Place
    folder: Path
    fork_server: ForkServer
    jvms: Sequence[Jvm]
    rng: random.Random
    shape: Shape
    done: list[str] = field(default_factory=list)
    words: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """By source id and size of a batch."""
    alive: list[_Running] = field(default_factory=list)
    racers: Racers = field(default_factory=Racers)
    widenings: Widenings = field(default_factory=Widenings)
    claims: set[CommitClaim] = field(default_factory=set)
    """Commits that jobs have logged as made."""
    stuck: bool = False
    """Whether a job that ran alone failed, which only a variant may do."""

    def __post_init__(self) -> None:
        self.landing = Landing(self.run, self.place, self.rng, self.shape.raced, self.shape.widens)
        for source_id, folder in SOURCES.items():
            for batch_files in (BATCH_FILES, LARGE_BATCH_FILES):
                self.words[source_id, batch_files] = self._configured(source_id, folder, batch_files)

    def _configured(self, source_id: str, folder: str, batch_files: int) -> list[str]:
        pipeline = source_id.partition(":")[0]
        batch = {"checkpoint": {"interval_files": batch_files, "interval_bytes": "100KB"}}
        widens = widening.SETTINGS if self.shape.widens else {}
        settings = SETTINGS | (IMPATIENT if self.run.variant else {}) | batch | widens
        file = self.folder / f"{pipeline}-{batch_files}.yaml"
        return places.write_config(self.place, file, {folder: settings}, pipeline=pipeline)

    def round(self) -> None:
        """Raises Failed, and kills the processes that are still running."""
        try:
            self._round()
        finally:
            for running in self.alive:
                running.process.kill()
                running.process.wait()

    def _round(self) -> None:
        self.done.append(f"{self.place.name}: {self.shape}")
        if self.run.variant or self.shape.widens:
            self._begin()
        for source_id in SOURCES:
            for _ in range(self.shape.files):
                self.landing.land(source_id)
        self._others()
        self._jobs()
        for _ in range(self.shape.files // 2):
            time.sleep(self.rng.uniform(0, RACE_SECS / self.shape.files))
            for source_id in SOURCES:
                self.landing.land(source_id)
        while self.alive:
            self._ended()
        self.run.counts.update(self.racers.counts(self.shape.raced))
        self._alone()
        self._compare()

    def _begin(self) -> None:
        """One job creates the table first: two that create it over a broken log leave an unreadable table, and a column
        that is as wide as the first batch needs it would not have to be widened."""
        for source_id in SOURCES:
            self.landing.land(source_id)
            self._job(f"the first job of {source_id}", source_id, self.shape.engines[0], self.jvms[0])
            self._ended(must_end_well=True)
        self.racers = Racers()

    # -- who races

    def _others(self) -> None:
        """Collectors and sweepers of both sources, and the writer with SQL."""
        for source_id, folder in SOURCES.items():
            common = {"told": self.place.told, "source_id": source_id, "landing": folder}
            for _ in range(self.shape.collectors):
                told = [self.rng.sample(self.landing.paths[source_id], self.rng.randint(1, 3)) for _ in range(3)]
                self._start(f"a collector of {source_id}", "collector", announced=told, **common)
            for _ in range(self.shape.sweepers):
                self._start(f"a sweeper of {source_id}", "sweeper", times=3, **common)
        if self.shape.operations:
            given = {"told": self.place.told, "operations": [*self.shape.operations], "within_secs": RACE_SECS}
            who = f"somebody with {', '.join(self.shape.operations)}"
            self._start(who, "other_writer", self.jvms[0], seed=str(self.rng.random()), **given)

    def _jobs(self) -> None:
        for source_id in SOURCES:
            races = source_id == self.shape.raced
            meets = races and self.shape.meeting is Meeting.ONE_WAITS
            for number in range(self.shape.jobs if races else self.shape.others):
                waits = meets and number == 0
                engine, jvm = self.shape.engine_of(number), self.jvms[number % len(self.jvms)]
                who = f"a job of {source_id} with {engine}{', which waits' if waits else ''}"
                self._job(who, source_id, engine, jvm, meets=meets, waits=waits)
                self.run.counts["jobs"] += 1
        self.run.counts["races"] += 1
        self.run.counts["races for which a job waited"] += self.shape.meeting is Meeting.ONE_WAITS

    def _job(
        self, who: str, source_id: str, engine: str, jvm: Jvm, *, meets: bool = False, waits: bool = False
    ) -> None:
        words = self.words[source_id, LARGE_BATCH_FILES if waits else BATCH_FILES]
        seed, variant = str(self.rng.random()), self.run.variant
        mark = str(self.folder / "begun")
        met = {"told": self.place.told, "source_id": source_id, "mark": mark, "waits": waits} if meets else None
        self.run.counts[JOBS_OF[engine]] += 1
        words = [*words, "--engine", engine]
        given = {"words": words, "seed": seed, "variant": variant, "met": met, "jvm_group": jvm.group}
        self.alive.append(_Running(who, self._started("job", jvm, **given), source_id, engine))

    def _start(self, who: str, what: str, jvm: Jvm | None = None, **given: Any) -> None:
        self.alive.append(_Running(who, self._started(what, jvm, **given)))

    def _started(self, what: str, jvm: Jvm | None, **given: Any) -> ForkedProcess:
        environment = {**self.place.environment, **(jvm.environment if jvm else {})}
        return self.fork_server.start(f"tests.proof.race.racing_processes:{what}", environment=environment, **given)

    def _ended(self, *, must_end_well: bool = False, alone: bool = False) -> int:
        """Waits for the process that was started last, and returns its number of commits. With a variant, its exit
        status is ignored: the table must show the fault."""
        running = self.alive[-1]
        who, process = running.who, running.process
        status, events = process.wait(), process.events()
        self.alive.pop()
        self.done.append(f"{who}: ended with {status}")
        self.stuck |= alone and status != 0
        if status != 0 and (must_end_well or not self.run.variant):
            self._fail(f"{who} ended with {status}: {process.log.read_text()[-2500:]}")
        self.claims.update(claimed_commits(events))
        if running.engine:
            self.racers.note(running.source_id, running.engine, events)
            self.widenings.note(events)
        self.run.counts["races lost"] += sum(event["event"] == "race_lost" for event in events)
        for event in events:
            if event["event"] == "foreign":
                self.run.counts["operations of others"] += 1
                self.run.counts[operation_on(self.place.name, event["operation"])] += 1
                self.run.counts["files that VACUUM removed"] += event["removed"]
            if event["event"] == "foreign_failed":
                self.run.counts["operations of others that gave way"] += 1
                self.done.append(f"somebody's {event['operation']} gave way: {event['error']}")
        return sum(event["event"] == "batch_committed" for event in events)

    # -- the end

    def _alone(self) -> None:
        for source_id in SOURCES:
            for turn in range(ALONE_AT_MOST):
                engine = self.shape.engines[turn % len(self.shape.engines)]
                self._job(f"a job of {source_id} alone, with {engine}", source_id, engine, self.jvms[0])
                if not self._ended(alone=True):
                    break
            else:
                if not self.run.variant:
                    self._fail(f"after {ALONE_AT_MOST} jobs in a row {source_id} still has something to commit")

    def _compare(self) -> None:
        try:
            found = race_account.account(self.place)
        except json.JSONDecodeError as error:
            self._fail(f"{TORN}: {error}")
        except (NotFound, pa.ArrowInvalid) as error:
            self._fail(f"{UNREADABLE}: {type(error).__name__}: {error}")
        self.run.counts["rows compared"] += found.entered.total()
        self.run.counts["rows removed by others"] += found.removed.total()
        self.run.counts["commits"] += found.commits
        self.run.counts[large_file.commits_of_a_part(self.place.name)] += large_file.parts_in(
            found.log, self.place.table()
        )
        wrong = [*race_account.complaints(found, self.place, SOURCES, self.claims), *self._wrong_in_newest(found)]
        self.run.counts[new_fields.ADDED] += found.brought
        self.run.counts[FORGOTTEN] += found.forgotten
        if found.widened:
            self._count_widenings(found)
        if self.stuck:  # rows may be missing that no job has read yet
            wrong = [what for what in wrong if VARIANTS[self.run.variant].finds(what) and not what.startswith(MISSING)]
        if wrong:
            self._fail("; ".join(wrong))
        self.run.counts[f"comparisons on {self.place.name}"] += 1

    def _wrong_in_newest(self, found: race_account.Account) -> Sequence[str]:
        """deltalake reads no table that was widened."""
        if not self.shape.widens:
            return [*race_account.of_newest(found, places.rows(self.place))]
        try:
            rows = rows_by_spark(self.fork_server, self.jvms[0], self.place, self.folder / "rows.ndjson")
        except NotRead as error:
            return [f"{UNREADABLE}: {error}"]
        return [*race_account.of_newest(found, rows)]

    def _count_widenings(self, found: race_account.Account) -> None:
        counts, place = self.run.counts, self.place.name
        counts[widened_races(place)] += 1
        counts[widening.widened_on(place)] += found.widened
        counts[widening.RESCUED] += found.texts
        counts.update(self.widenings.counts())

    def _fail(self, why: str) -> NoReturn:
        raise Failed(f"{self.place.name}: {why}", [f"seed {self.run.seed}, {self.folder.name}", *self.done])


def find(run: Run, fork_server: ForkServer, jvms: Sequence[Jvm]) -> None:
    """A broken variant, with each engine. Raises Failed if it is found with each."""

    def go(engine: str) -> None:
        folder = run.folder / engine
        folder.mkdir()
        race(replace(run, folder=folder), fork_server, jvms, mixes=[(engine,)])

    find_with_each(run, VARIANTS[run.variant], go)


def race(
    run: Run,
    fork_server: ForkServer,
    jvms: Sequence[Jvm],
    aws: LocalAws | None = None,
    *,
    shrink_secs: float = 0.0,
    mixes: Sequence[tuple[str, ...]] = MIXES,
) -> None:
    """A table for each round; with `aws` every second one on S3. `shrink_secs`: the time to look for a smaller race
    that fails. `mixes`: of engines."""
    short = run.budget.rounds is not None
    for number, _ in run.rounds():
        rounds = _Round(run, number, fork_server, jvms, aws if number % len(PLACES) else None)
        rng, alone = run.rng(number), bool(run.variant)
        kind = {"short": short, "alone": alone, "widens": run.variant in WIDENED_VARIANTS if alone else None}
        sources = [WIDE_SOURCE] if kind["widens"] else [*SOURCES]
        shape = drawn(rng, number, sources, places=len(PLACES), mixes=mixes, **kind)
        try:
            rounds.go(shape, run)
        except Failed as failed:
            raise rounds.smallest(shape, failed, shrink_secs) from failed
    if not run.variant and not short:
        wanted.check(run)


class _Round:
    """Races of one round, each over a new table; on S3 if there is `aws`."""

    def __init__(
        self, run: Run, number: int, fork_server: ForkServer, jvms: Sequence[Jvm], aws: LocalAws | None
    ) -> None:
        self._run, self._number, self._fork_server, self._jvms, self._aws = run, number, fork_server, jvms, aws
        self._tables = 0

    def go(self, shape: Shape, run: Run) -> None:
        name = f"race-{self._number}-{self._tables}"
        self._tables += 1
        folder = run.folder / name
        folder.mkdir()
        place = S3Place.made(self._aws, name) if self._aws is not None else LocalPlace(folder)
        run.say(f"round {self._number}, on {place.name}: {shape}")
        _Race(run, place, folder, self._fork_server, self._jvms, run.rng(self._number), shape).round()

    def smallest(self, shape: Shape, failed: Failed, within_secs: float) -> Failed:
        """The smaller races do not count in the report; each is tried once."""
        until_ts = self._run.budget.clock() + within_secs
        _, found = smallest(shape, failed, self._again, lambda: self._run.budget.clock() < until_ts)
        more = self._tables - 1
        if not more:
            return failed
        if found is failed:
            return Failed(failed.why, [*failed.steps, NOT_SMALLER.format(more)])
        return Failed(found.why, [*found.steps, SMALLER.format(more)])

    def _again(self, shape: Shape) -> Failed | None:
        try:
            self.go(shape, replace(self._run, counts=Counter()))
        except Failed as failed:
            return failed
        except Exception as error:  # noqa: BLE001 - what was found stands, whatever becomes of a smaller one
            self._run.say(f"a smaller race ended otherwise: {error}")
        return None


@dataclass(frozen=True)
class Race:
    name = "race"
    about = "jobs, collectors and sweepers on one table at once, and somebody else who changes it meanwhile"
    variants = VARIANTS
    wanted = ALL_WANTED

    def run(self, run: Run) -> None:
        """Without a limit of rounds, in two JVMs, so that both race for the log, and also on S3."""
        with ExitStack() as stack:
            fork_server = stack.enter_context(
                ForkServer(run.folder / "processes", ["tests.proof.race.racing_processes"])
            )
            more = overwriting(run.folder / "classes") if run.variant == OVERWRITING_LOG else {}
            aws = stack.enter_context(local_aws()) if run.budget.rounds is None and not run.variant else None
            environment = aws.environment() if aws else {}
            stack.enter_context(temporary_variables(environment))
            jvms = []
            for number in range(2 if run.budget.rounds is None else 1):
                folder, endpoint = run.folder / f"jvm-{number}", aws.endpoint if aws else None
                jvm = Jvm(folder, environment=environment, s3_endpoint=endpoint, more=more)
                jvms.append(stack.enter_context(jvm))
            if run.variant:
                find(run, fork_server, jvms)
            else:
                race(run, fork_server, jvms, aws, shrink_secs=SHRINK_SECS if run.budget.rounds is None else 0.0)


CAMPAIGN = Race()
