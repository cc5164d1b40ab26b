"""Campaign `race`: jobs of one source and of several pipelines on one table at once, with collectors, sweepers, and
somebody else who optimizes, deletes, restores, appends and changes the schema meanwhile."""

import gzip
import json
import random
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tests.proof import kill_place, race_account
from tests.proof.campaign import Failed, Run
from tests.proof.kill_jvm import Jvm
from tests.proof.kill_lives import Life, Lives
from tests.proof.kill_place import LocalPlace
from tests.proof.race_names import OPERATIONS, OVERWRITING_LOG, VARIANTS

SOURCES = {"events:landing": "landing", "others:partner": "partner"}
"""Two pipelines on one table: folder by source id."""
SETTINGS: dict[str, Any] = {"checkpoint": {"interval_files": 3}, "retries": {"max_attempts": 30, "max_backoff_secs": 1}}
FILES = 8
"""Of each source, before the race begins; half as many come while it lasts."""
RACE_SECS = 4.0
"""About what a race lasts: over it somebody's operations are spread."""
ALONE_AT_MOST = 4


@dataclass
class _Race:
    """One table, from its first commit on."""

    run: Run
    place: LocalPlace
    lives: Lives
    jvms: list[Jvm]
    rng: random.Random
    done: list[str] = field(default_factory=list)
    words: dict[str, list[str]] = field(default_factory=dict)
    paths: dict[str, list[str]] = field(default_factory=dict)
    records: int = 0

    def __post_init__(self) -> None:
        for source_id, folder in SOURCES.items():
            pipeline = source_id.partition(":")[0]
            file = self.place.folder / f"{pipeline}.yaml"
            self.words[source_id] = kill_place.write_config(self.place, file, {folder: SETTINGS}, pipeline=pipeline)
            self.paths[source_id] = []

    def round(self) -> None:
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
            common = {"folder": str(self.place.folder), "source_id": source_id, "landing": folder}
            for _ in range(2 if self.run.budget.rounds is None else 1):
                told = [self.rng.sample(self.paths[source_id], self.rng.randint(1, 3)) for _ in range(3)]
                started.append(self._start(f"a collector of {source_id}", "collector", announced=told, **common))
            started.append(self._start(f"a sweeper of {source_id}", "sweeper", times=3, **common))
        operations = self.rng.sample(OPERATIONS, 4 if self.run.budget.rounds is None else 3)
        if self.run.variant:
            operations = []  # what is broken shall show without them
        jvm = self.jvms[0]
        somebody = self.lives.start(
            "tests.proof.race_life:somebody",
            environment=jvm.environment,
            table_uri=self.place.table_uri,
            operations=operations,
            seed=str(self.rng.random()),
            within_secs=RACE_SECS,
        )
        return [*started, (f"somebody with {', '.join(operations) or 'nothing'}", somebody)]

    def _jobs(self) -> list[tuple[str, Life]]:
        """2 to 4 on one source (2 in a short run), 1 on the other."""
        most = 4 if self.run.budget.rounds is None else 2
        counts = dict(zip(SOURCES, self.rng.sample([self.rng.randint(2, most), 1], 2), strict=True))
        started = []
        for source_id, count in counts.items():
            for number in range(count):
                jvm = self.jvms[number % len(self.jvms)]
                environment = jvm.environment
                started.append(self._start(f"a job of {source_id}", "job", environment, words=self.words[source_id]))
            self.run.counts["races"] += count > 1
        self.run.counts["jobs"] += len(started)
        self.rng.shuffle(started)
        return started

    def _start(
        self, who: str, what: str, environment: Mapping[str, str] | None = None, **given: Any
    ) -> tuple[str, Life]:
        call = f"tests.proof.race_life:{what}"
        return who, self.lives.start(call, environment=environment, variant=self.run.variant, **given)

    def _ended(self, who: str, life: Life) -> int:
        """How many commits it made."""
        status, events = life.wait(), life.events()
        self.done.append(f"{who}: ended with {status}")
        if status != 0:
            self._fail(f"{who} ended with {status}: {life.log.read_text()[-2500:]}")
        self.run.counts["races lost"] += sum(event["event"] == "race_lost" for event in events)
        for event in events:
            if event["event"] == "foreign":
                self.run.counts["operations of others"] += 1
                self.run.counts[f"operations of others: {event['operation']}"] += 1
            if event["event"] == "foreign_failed":
                self.run.counts["operations of others that gave way"] += 1
                self.done.append(f"somebody's {event['operation']} gave way: {event['error']}")
        return sum(event["event"] == "batch_committed" for event in events)

    # -- the end

    def _alone(self) -> None:
        for source_id, words in self.words.items():
            for _ in range(ALONE_AT_MOST):
                who, life = self._start(f"a job of {source_id} alone", "job", self.jvms[0].environment, words=words)
                if not self._ended(who, life):
                    break
            else:
                self._fail(f"after {ALONE_AT_MOST} jobs in a row {source_id} still has something to commit")

    def _compare(self) -> None:
        found = race_account.account(self.place)
        self.run.counts["rows compared"] += found.entered.total()
        self.run.counts["rows removed by others"] += found.removed.total()
        self.run.counts["rows that came back with a repeated event"] += found.came_back.total()
        self.run.counts["commits"] += found.commits
        if wrong := [*race_account.complaints(self.place, SOURCES)]:
            self._fail("; ".join(wrong))

    def _fail(self, why: str) -> None:
        raise Failed(why, [f"seed {self.run.seed}, round {self.run.counts['rounds']}", *self.done])


@dataclass(frozen=True)
class Race:
    name = "race"
    about = "jobs, collectors and sweepers on one table at once, and somebody else who changes it meanwhile"
    variants = VARIANTS

    def run(self, run: Run) -> None:
        """A table for each round. Without a limit of rounds in two JVMs, so that the log is raced for by both."""
        with ExitStack() as stack:
            lives = stack.enter_context(Lives(run.folder / "lives", ["tests.proof.race_life"]))
            more = {}
            if run.variant == OVERWRITING_LOG:
                from tests.proof.race_log import overwriting

                more = overwriting(run.folder / "classes")
            count = 1 if run.budget.rounds is not None else 2
            jvms = [stack.enter_context(Jvm(run.folder / f"jvm-{n}", more=more)) for n in range(count)]
            for number, rng in run.rounds():
                run.say(f"races of jobs, collectors, sweepers and others: round {number}")
                folder = run.folder / f"round-{number}"
                folder.mkdir()
                _Race(run, LocalPlace(folder), lives, jvms, rng).round()


CAMPAIGN = Race()
