"""Campaign `race`: jobs of one source and of several pipelines on one table at once, with collectors, sweepers, and
somebody else who optimizes, deletes, restores, appends and changes the schema meanwhile."""

import gzip
import json
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from blizzard.environment import adopted
from blizzard.errors import BlizzardError
from infra.local.process import LocalAws, local_aws
from tests.proof import kill_place, race_account
from tests.proof.breaks import OVERWRITING_LOG
from tests.proof.campaign import Failed, Run, check_shown
from tests.proof.kill_beliefs import Promise, believed
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_lives import Life, Lives
from tests.proof.kill_place import LocalPlace, Place, S3Place
from tests.proof.race_log import overwriting
from tests.proof.race_names import OPERATIONS, UNREADABLE, VARIANTS

SOURCES = {"events:landing": "landing", "others:partner": "partner"}
"""Two pipelines on one table: folder by source id."""
SETTINGS: dict[str, Any] = {"checkpoint": {"interval_files": 3}, "retries": {"max_attempts": 30, "max_backoff_secs": 1}}
IMPATIENT = {"retries": {"max_attempts": 3, "max_backoff_secs": 1}}
"""For jobs in a log that is broken: some will never get on."""
FILES = 8
"""Of each source, before the race begins; half as many come while it lasts."""
RACE_SECS = 4.0
"""About what a race lasts: over it somebody's operations are spread."""
ALONE_AT_MOST = 4
OPERATIONS_OF_A_ROUND = 4
"""Of somebody else; half as many in a short run."""
PLACES = ("local files", "S3")
"""As they name themselves; the rounds have them in turn."""
ROUNDS_FOR_ALL = 6
"""After which somebody has succeeded with each operation on each place, and a race was lost, or the campaign says
so."""


def _operation(name: str, place: str) -> str:
    return f"operations of others on {place}: {name}"


WANTED = (
    "races lost",
    "files that VACUUM removed",
    *(_operation(name, place) for name in OPERATIONS for place in PLACES),
)
"""Counts."""


@dataclass
class _Race:
    """One table, from its first commit on. `folder`: for what is no table."""

    run: Run
    place: Place
    folder: Path
    lives: Lives
    jvms: Sequence[Jvm]
    rng: random.Random
    operations: Sequence[str]
    """Of somebody else."""
    done: list[str] = field(default_factory=list)
    words: dict[str, list[str]] = field(default_factory=dict)
    paths: dict[str, list[str]] = field(default_factory=dict)
    records: int = 0
    promised: set[Promise] = field(default_factory=set)
    """What jobs believe to have committed."""
    stuck: bool = False
    """Whether a job that was alone ended badly, which only what is broken on purpose may do."""

    def __post_init__(self) -> None:
        for source_id, folder in SOURCES.items():
            pipeline = source_id.partition(":")[0]
            file = self.folder / f"{pipeline}.yaml"
            settings = SETTINGS | (IMPATIENT if self.run.variant else {})
            self.words[source_id] = kill_place.write_config(self.place, file, {folder: settings}, pipeline=pipeline)
            self.paths[source_id] = []

    def round(self) -> None:
        if self.run.variant:
            self._begin()
        for source_id in SOURCES:
            for _ in range(FILES):
                self._land(source_id)
        others = self._others()
        jobs = self._jobs()
        for _ in range(FILES // 2):
            time.sleep(self.rng.uniform(0, RACE_SECS / FILES))
            for source_id in SOURCES:
                self._land(source_id)
        for who, life in [*jobs, *others]:
            self._ended(who, life)
        self._alone()
        self._compare()

    def _begin(self) -> None:
        """One job makes the table: two that do so by a broken log leave one that nobody can read."""
        for source_id in SOURCES:
            self._land(source_id)
            self._ended(*self._job(f"the first job of {source_id}", source_id, self.jvms[0]), must_end_well=True)

    # -- what lands

    def _land(self, source_id: str) -> None:
        number = len(self.paths[source_id])
        path = f"{number:04d}.ndjson.gz"
        lines = [self._line() for _ in range(self.rng.randint(1, 12))]
        self.place.put(SOURCES[source_id], path, gzip.compress("".join(f"{line}\n" for line in lines).encode()))
        self.paths[source_id].append(path)
        self.run.counts["files"] += 1

    def _line(self) -> str:
        self.records += 1
        self.run.counts["records"] += 1
        text = json.dumps({"id": f"{self.records}", "n": self.records})
        return text[:-1] if self.rng.random() < 0.02 else text

    # -- who races

    def _others(self) -> list[tuple[str, Life]]:
        """Collectors and sweepers of both sources, and somebody with SQL."""
        started = []
        for source_id, folder in SOURCES.items():
            common = {"told": self.place.told, "source_id": source_id, "landing": folder}
            for _ in range(2 if self.run.budget.rounds is None else 1):
                told = [self.rng.sample(self.paths[source_id], self.rng.randint(1, 3)) for _ in range(3)]
                started.append(self._start(f"a collector of {source_id}", "collector", announced=told, **common))
            started.append(self._start(f"a sweeper of {source_id}", "sweeper", times=3, **common))
        if self.operations:
            given = {"told": self.place.told, "operations": self.operations, "within_secs": RACE_SECS}
            who = f"somebody with {', '.join(self.operations)}"
            started.append(self._start(who, "somebody", self.jvms[0], seed=str(self.rng.random()), **given))
        return started

    def _jobs(self) -> list[tuple[str, Life]]:
        """2 to 4 on one source (2 in a short run), 1 on the other."""
        most = 4 if self.run.budget.rounds is None else 2
        counts = dict(zip(SOURCES, self.rng.sample([self.rng.randint(2, most), 1], 2), strict=True))
        started: list[tuple[str, Life]] = []
        for source_id, count in counts.items():
            jvms = (self.jvms[number % len(self.jvms)] for number in range(count))
            started += [self._job(f"a job of {source_id}", source_id, jvm) for jvm in jvms]
            self.run.counts["races"] += count > 1
        self.run.counts["jobs"] += len(started)
        self.rng.shuffle(started)
        return started

    def _job(self, who: str, source_id: str, jvm: Jvm) -> tuple[str, Life]:
        seed, variant = str(self.rng.random()), self.run.variant
        return self._start(who, "job", jvm, words=self.words[source_id], seed=seed, variant=variant)

    def _start(self, who: str, what: str, jvm: Jvm | None = None, **given: Any) -> tuple[str, Life]:
        environment = {**self.place.environment, **(jvm.environment if jvm else {})}
        return who, self.lives.start(f"tests.proof.race_life:{what}", environment=environment, **given)

    def _ended(self, who: str, life: Life, *, must_end_well: bool = False, alone: bool = False) -> int:
        """How many commits it made. Of what is broken the table has to tell, once there is one."""
        status, events = life.wait(), life.events()
        self.done.append(f"{who}: ended with {status}")
        self.stuck |= alone and status != 0
        if status != 0 and (must_end_well or not self.run.variant):
            self._fail(f"{who} ended with {status}: {life.log.read_text()[-2500:]}")
        self.promised.update(believed(events))
        self.run.counts["races lost"] += sum(event["event"] == "race_lost" for event in events)
        for event in events:
            if event["event"] == "foreign":
                self.run.counts["operations of others"] += 1
                self.run.counts[_operation(event["operation"], self.place.name)] += 1
                self.run.counts["files that VACUUM removed"] += event["removed"]
            if event["event"] == "foreign_failed":
                self.run.counts["operations of others that gave way"] += 1
                self.done.append(f"somebody's {event['operation']} gave way: {event['error']}")
        return sum(event["event"] == "batch_committed" for event in events)

    # -- the end

    def _alone(self) -> None:
        for source_id in SOURCES:
            for _ in range(ALONE_AT_MOST):
                if not self._ended(*self._job(f"a job of {source_id} alone", source_id, self.jvms[0]), alone=True):
                    break
            else:
                if not self.run.variant:
                    self._fail(f"after {ALONE_AT_MOST} jobs in a row {source_id} still has something to commit")

    def _compare(self) -> None:
        try:
            found = race_account.account(self.place)
        except (BlizzardError, KeyError, ValueError) as error:
            self._fail(f"{UNREADABLE}: {type(error).__name__}: {error}")
        self.run.counts["rows compared"] += found.entered.total()
        self.run.counts["rows removed by others"] += found.removed.total()
        self.run.counts["rows that came back with a repeated event"] += found.came_back.total()
        self.run.counts["commits"] += found.commits
        wrong = [*race_account.complaints(found, self.place, SOURCES, self.promised)]
        if self.stuck:  # what is missing then may be what nobody got to
            wrong = [what for what in wrong if VARIANTS[self.run.variant].finds(what)]
        if wrong:
            self._fail("; ".join(wrong))
        self.run.counts[f"comparisons on {self.place.name}"] += 1

    def _fail(self, why: str) -> NoReturn:
        number = self.run.counts["rounds"]
        raise Failed(f"{self.place.name}: {why}", [f"seed {self.run.seed}, round {number}", *self.done])


def race(run: Run, lives: Lives, jvms: Sequence[Jvm], aws: LocalAws | None = None) -> None:
    """A table for each round; with `aws` each second one on S3."""
    for number, rng in run.rounds():
        folder = run.folder / f"round-{number}"
        folder.mkdir()
        on_s3 = aws is not None and number % 2 == 1
        place = S3Place.made(aws, f"race-{number}") if aws is not None and on_s3 else LocalPlace(folder)
        run.say(f"races of jobs, collectors, sweepers and others on {place.name}: round {number}")
        _Race(run, place, folder, lives, jvms, rng, _operations(run, number, rng)).round()
    if not run.variant and run.budget.rounds is None and run.counts["rounds"] >= ROUNDS_FOR_ALL:
        check_shown(run, WANTED)


def _operations(run: Run, number: int, rng: random.Random) -> list[str]:
    """Some in each round, each after two or three. None where something is broken: that has to show without them."""
    if run.variant:
        return []
    count = OPERATIONS_OF_A_ROUND // (1 if run.budget.rounds is None else 2)
    some = [OPERATIONS[(number * count + more) % len(OPERATIONS)] for more in range(count)]
    return rng.sample(some, len(some))


@dataclass(frozen=True)
class Race:
    name = "race"
    about = "jobs, collectors and sweepers on one table at once, and somebody else who changes it meanwhile"
    variants = VARIANTS
    wanted = WANTED

    def run(self, run: Run) -> None:
        """Without a limit of rounds in two JVMs, so that the log is raced for by both, and also on S3."""
        with ExitStack() as stack:
            lives = stack.enter_context(Lives(run.folder / "lives", ["tests.proof.race_life"]))
            more = overwriting(run.folder / "classes") if run.variant == OVERWRITING_LOG else {}
            aws = stack.enter_context(local_aws()) if run.budget.rounds is None and not run.variant else None
            environment = aws.environment() if aws else {}
            stack.enter_context(adopted(environment))
            jvms = []
            for number in range(2 if run.budget.rounds is None else 1):
                folder, endpoint = run.folder / f"jvm-{number}", aws.endpoint if aws else None
                jvm = Jvm(folder, environment=environment, s3_endpoint=endpoint, more=more)
                jvms.append(stack.enter_context(jvm))
            race(run, lives, jvms, aws)


CAMPAIGN = Race()
