"""Campaign `kafka`: topics on three real brokers, while jobs are killed and race, brokers die and come back, partitions
are added, retention takes messages, and the state of a source is lost."""

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.child_process import ChildProcess
from tests.kafka.topics import create_topic, delete_topic, leaders
from tests.proof.campaign import Failed, Fault, Run, check_shown
from tests.proof.kafka.variants import (
    FAULTS,
    LATE_LETTERS,
    LETTERS_WAIT,
    LOST_IS_WON,
    NO_PARTITION_TXNS,
    SILENT_GAP,
)
from tests.proof.kafka.world import PARTITIONS, PLAIN, TRANSACTIONS, Topics, compare, read_table

MOMENTS = ("positions_recovered", "ranges_planned", "batch_read", "messages_committed")
KILLED = {moment: f"kills after {moment}" for moment in MOMENTS}
ANY_TIME, RACES, BROKERS = "kills at any time", "two jobs at once", "brokers killed"
LEADERS, ADDED, RETENTION = "leaders killed while a job reads", "partitions added", "times that retention took messages"
GAPS, STATES, AGAIN = "messages that were gone before they were read", "lost states", "topics made again"
COMPARED = "messages compared with rows and letters"
TURNS = 12
LIFE_SECS = 120.0


class Kafka:
    name = "kafka"
    about = "topics on three brokers, while jobs and brokers are killed, and topics change"
    variants: Mapping[str, Fault] = FAULTS
    wanted = (*KILLED.values(), ANY_TIME, RACES, BROKERS, LEADERS, ADDED, RETENTION, GAPS, STATES, AGAIN)

    def run(self, run: Run) -> None:
        run.say("starting three brokers")
        with KafkaCluster(run.folder / "brokers", brokers=3) as cluster:
            for number, rng in run.rounds():
                Round(run, cluster, number, rng).go()
        if run.budget.rounds is None and not run.variant:
            check_shown(run, self.wanted)


CAMPAIGN = Kafka()
LONG_ONLY = frozenset({NO_PARTITION_TXNS, LOST_IS_WON, SILENT_GAP})
"""They show only at what does not happen in each round."""


class Round:
    """New topics and tables, and what happens to them."""

    def __init__(self, run: Run, cluster: KafkaCluster, number: int, rng: random.Random) -> None:
        self._run, self._cluster, self._rng = run, cluster, rng
        self._folder = run.folder / f"round-{number}"
        self._folder.mkdir()
        self._topics = Topics(cluster, f"r{number}", rng, run.counts)
        self._steps = [f"seed {run.seed}, round {number}, {self._folder}"]
        self._down: int | None = None
        self._jobs = 0
        self._log = self._folder / "jobs.log"

    def go(self) -> None:
        self._begin()
        for _ in range(TURNS):
            self._topics.write()
            self._happens()
            self._life()
        self._verify()
        self._made_again()

    def _begin(self) -> None:
        """Before that, what retention takes was never the source's."""
        job = self._start()
        try:
            if (status := self._end(job)) != 0:
                raise Failed(f"the first job ended with {status}; its log: {self._log}", self._steps)
        finally:
            job.stop()

    # -- what happens

    def _happens(self) -> None:
        if self._down is not None:
            self._step(f"broker {self._down} comes back")
            self._cluster.start(self._down)
            self._down = None
        whats: list[Callable[[], None]] = [self._broker_dies, self._partition, self._retention, self._state_is_lost]
        if self._run.variant == NO_PARTITION_TXNS:
            whats = [self._state_is_lost]
        if self._run.variant == SILENT_GAP:
            whats = [self._retention]
        self._rng.choice([*whats, lambda: None])()

    def _broker_dies(self) -> None:
        self._down = self._rng.choice(self._cluster.nodes)
        self._step(f"broker {self._down} is killed")
        self._cluster.kill(self._down)
        self._run.counts[BROKERS] += 1

    def _partition(self) -> None:
        if self._topics.add_partition():
            self._step("a partition is added")
            self._run.counts[ADDED] += 1

    def _retention(self) -> None:
        self._step("retention takes messages")
        self._topics.forget_some()
        self._run.counts[RETENTION] += 1

    def _state_is_lost(self) -> None:
        """Of the commits that have a checkpoint, and the copy."""
        for table in self._tables():
            for file in sorted((table / "_delta_log").glob("*.json")):
                actions = [json.loads(line) for line in file.read_text().splitlines()]
                for action in actions:
                    action.get("commitInfo", {}).pop("userMetadata", None)
                file.write_text("\n".join(map(json.dumps, actions)))
            for copy in table.glob("_blizzard/*_checkpoint.json"):
                copy.unlink()
            self._step(f"the state in {table.name} is lost")
            self._run.counts[STATES] += 1

    def _tables(self) -> list[Path]:
        return [table for table in (self._folder / "envelopes", self._folder / "records") if table.exists()]

    # -- jobs

    def _life(self) -> None:
        races = self._run.variant == LOST_IS_WON or self._rng.random() < 0.3
        jobs = [self._start() for _ in range(2 if races else 1)]
        self._run.counts[RACES] += races
        moments = {LATE_LETTERS: [LETTERS_WAIT], LOST_IS_WON: [""]}.get(self._run.variant, [*MOMENTS, ANY_TIME, ""])
        moment = self._rng.choice(moments)
        try:
            if moment:
                self._kill(jobs[0], moment)
            for job in jobs:
                self._end(job)
        finally:
            for job in jobs:
                job.stop()

    def _start(self) -> ChildProcess:
        words = [self._run.variant or "-", "--config", str(self._configuration()), "--once", "--engine", "local"]
        return ChildProcess(["tests.proof.kafka.job", *words], {}, self._log)

    def _kill(self, job: ChildProcess, moment: str) -> None:
        if moment == ANY_TIME:
            self._wait(job, None, self._rng.uniform(0.3, 3.0))
        elif not self._wait(job, moment, LIFE_SECS):
            return
        if moment == "ranges_planned" and self._down is None and self._rng.random() < 0.5:
            self._leader_dies()
            return
        time.sleep(self._rng.uniform(0, 0.05))
        if job.exit_status is None:
            job.kill()
            self._step(f"a job is killed: {moment}")
            self._run.counts[KILLED.get(moment, moment)] += 1
            self._run.counts["kills"] += 1

    def _leader_dies(self) -> None:
        found = leaders(self._topics.settings, self._topics.name(PLAIN))
        self._down = self._rng.choice([*found.values()])
        self._step(f"broker {self._down} is killed, which leads a partition")
        self._cluster.kill(self._down)
        self._run.counts[LEADERS] += 1

    def _wait(self, job: ChildProcess, event: str | None, secs: float) -> bool:
        """Whether the job has logged the event; it may end before."""
        deadline = time.monotonic() + secs
        while time.monotonic() < deadline and (job.exit_status is None or not job.events.empty()):
            if job.events.empty():
                time.sleep(0.01)
            elif self._noted(job.events.get())["event"] == event:
                return True
        return False

    def _noted(self, event: "dict[str, object]") -> "dict[str, object]":
        if event["event"] == "offsets_lost":
            self._run.counts[GAPS] += 1
        return event

    def _end(self, job: ChildProcess) -> int | None:
        self._wait(job, None, LIFE_SECS)
        if job.exit_status is None:
            job.kill()
            raise Failed(f"a job did not end within {LIFE_SECS:.0f} s; its log: {self._log}", self._steps)
        return job.exit_status

    def _configuration(self) -> Path:
        """Of one job: of two that race, each has batches of another size."""
        self._jobs += 1
        file, servers = self._folder / f"pipelines-{self._jobs}.yaml", self._cluster.bootstrap_servers
        records_a_batch = (50, 200, 1000)[(self._jobs + self._rng.randrange(2)) % 3]
        if self._run.variant == LOST_IS_WON:  # each job of a race has several batches, and one of them larger ones
            records_a_batch = (20, 100)[self._jobs % 2]
        shared = {
            "checkpoint": {"interval_records": records_a_batch},
            "retries": {"max_attempts": 12, "max_backoff_secs": 1},
        }
        kafka = {"bootstrap_servers": servers, "on_lost_offsets": "continue"}
        envelopes = {"kafka": {**kafka, "topic_pattern": f"{self._topics.prefix}-.*"}, "format": "envelope", **shared}
        records = {"kafka": {**kafka, "topics": [self._topics.name(PLAIN)]}, "format": "ndjson", **shared}
        records["schema"] = "id STRING, n BIGINT"
        pipelines = {
            "envelopes": {"table_uri": str(self._folder / "envelopes"), "sources": {"all": envelopes}},
            "records": {"table_uri": str(self._folder / "records"), "sources": {"plain": records}},
        }
        file.write_text(json.dumps({"pipelines": pipelines}))
        return file

    # -- the verdict

    def _verify(self) -> None:
        if self._down is not None:
            self._cluster.start(self._down)
            self._down = None
        self._cluster.wait()
        self._step("a job runs to its end")
        job = self._start()
        try:
            if (status := self._end(job)) != 0:
                raise Failed(f"the last job ended with {status}; its log: {self._log}", self._steps)
        finally:
            job.stop()
        now = self._topics.look()
        every = {self._topics.name(topic) for topic in PARTITIONS}
        plain = {self._topics.name(PLAIN)}
        envelopes = read_table(
            self._folder / "envelopes", "_blizzard/envelopes_all", "envelopes:all", "message_payload"
        )
        records = read_table(self._folder / "records", "_blizzard/records_plain", "records:plain", "id")
        counts = self._run.counts
        counts[COMPARED] += compare(self._topics, now, envelopes, every, self._steps, decoded=False)
        counts[COMPARED] += compare(self._topics, now, records, plain, self._steps, decoded=True)

    def _made_again(self) -> None:
        """A topic is not taken for the one before: the job fails, and says so."""
        name = self._topics.name(TRANSACTIONS)
        self._step(f"topic {name} is made again")
        delete_topic(self._topics.settings, name)
        create_topic(self._topics.settings, name, PARTITIONS[TRANSACTIONS])
        job = self._start()
        try:
            while job.exit_status is None:
                time.sleep(0.01)
        finally:
            job.stop()  # what it has said is read by then
        said: list[object] = []
        while not job.events.empty():
            said.append(job.events.get())
        if job.exit_status == 0 or "was deleted and made again" not in str(said):
            raise Failed(f"nobody's: a topic that was made again was read on, exit code {job.exit_status}", self._steps)
        self._run.counts[AGAIN] += 1

    def _step(self, what: str) -> None:
        self._steps.append(what)
        self._run.say(what)
