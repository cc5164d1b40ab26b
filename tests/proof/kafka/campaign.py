"""Campaign `kafka`: topics on three real brokers, while jobs are killed and race, brokers die and come back, partitions
are added, retention takes messages, the schema registry does not answer, the state of a source is lost, and at last a
log. The jobs have the local engine; in a share of the rounds each has one of both, and two that race have one each."""

import json
import random
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.child_process import ChildProcess
from tests.kafka.topics import create_topic, delete_topic, leaders, until
from tests.proof.campaign import Failed, Fault, Run, check_shown
from tests.proof.kafka import audits
from tests.proof.kafka.audits import AUDITED, LETTER_GONE, ROW_GONE, UNANSWERED_AUDITS
from tests.proof.kafka.registry import COLUMNS, UNANSWERED, AvroRegistry
from tests.proof.kafka.variants import (
    CUT_IS_PASSED,
    FAULTS,
    LATE_LETTERS,
    LETTERS_WAIT,
    LOST_IS_WON,
    NO_PARTITION_TXNS,
    OUTAGE_IS_FAULT,
    SILENT_GAP,
)
from tests.proof.kafka.world import (
    ABORTS,
    AVRO,
    PARTITIONS,
    PLAIN,
    TRANSACTIONS,
    Place,
    Read,
    Topics,
    compare,
    json_record,
    read_table,
)
from tests.unit.schema_registry import Registry

MOMENTS = ("positions_recovered", "ranges_planned", "batch_read", "messages_committed")
KILLED = {moment: f"kills after {moment}" for moment in MOMENTS}
ANY_TIME, RACES, BROKERS = "kills at any time", "two jobs at once", "brokers killed"
LEADERS, ADDED, RETENTION = "leaders killed while a job reads", "partitions added", "times that retention took messages"
GAPS, STATES, AGAIN = "messages that were gone before they were read", "lost states", "topics made again"
TRUNCATED = "logs truncated"
COMPACTED_AWAY, TWICE = "messages that compaction took", "messages that a producer has stored twice"
ENGINES = {engine: f"jobs of the engine {engine}" for engine in ("local", "spark")}
COMPARED = "messages compared with rows and letters"
TURNS, TURNS_OF_BOTH, TURNS_OF_BROKEN = 12, 6, 3
"""In a round: Spark is slow, and what is broken shows after a few, or in another round."""
RACES_OF_BOTH = "races of one engine with the other"
START_SECS = {"local": 3.0, "spark": 25.0}
"""Within which a job that is killed at any time has begun to read."""
LIFE_SECS, LONG_LIFE_SECS = 120.0, 480.0  # with Spark
SOURCES = ("envelopes:all", "records:plain", "avros:avro")
OUTAGES = 0.3
"""Of the turns: so many begin with a schema registry that does not answer."""
IMPATIENT, BETWEEN = 0.3, 0.15
"""Of the turns: a producer sends messages again that it need not; there is an audit before the next job."""


class Kafka:
    name = "kafka"
    about = "topics on three brokers, while jobs and brokers are killed, and topics change"
    variants: Mapping[str, Fault] = FAULTS
    wanted = (
        *(*KILLED.values(), ANY_TIME, RACES, BROKERS, LEADERS, ADDED, RETENTION, GAPS, STATES, AGAIN, TRUNCATED),
        *(ABORTS, COMPACTED_AWAY, TWICE, UNANSWERED, AUDITED, ROW_GONE, LETTER_GONE),
    )

    def run(self, run: Run) -> None:
        run.say("starting three brokers")
        with KafkaCluster(run.folder / "brokers", brokers=3) as cluster, Registry() as served:
            registry = AvroRegistry(served, run.counts)
            for number, rng in run.rounds():
                Round(run, cluster, registry, number, rng).go()
        if run.budget.rounds is None and not run.variant:
            check_shown(run, self.wanted)


CAMPAIGN = Kafka()
LONG_ONLY = frozenset({NO_PARTITION_TXNS, LOST_IS_WON, SILENT_GAP})
"""They show only at what does not happen in each round."""


class Round:
    """New topics and tables, and what happens to them."""

    def __init__(
        self, run: Run, cluster: KafkaCluster, registry: AvroRegistry, number: int, rng: random.Random
    ) -> None:
        self._run, self._cluster, self._registry, self._rng = run, cluster, registry, rng
        self._folder = run.folder / f"round-{number}"
        self._folder.mkdir()
        # Of generators of their own: the rest of the round is the same with any share.
        self._avro_rng = random.Random(f"{run.seed}/{number}/avro")
        self._topics = Topics(cluster, f"r{number}", rng, self._avro_rng, registry, run.counts)
        self._engine_rng = random.Random(f"{run.seed}/{number}/engine")
        self._later_rng = random.Random(f"{run.seed}/{number}/later")
        self._has_both = self._engine_rng.random() < run.spark_share
        self._steps = [
            f"seed {run.seed}, round {number}, {'both engines' if self._has_both else 'local'}, {self._folder}"
        ]
        self._down: int | None = None
        self._states_lost = False
        self._jobs = 0
        self._log = self._folder / "jobs.log"

    def go(self) -> None:
        self._run_well("the first job")  # before it, what retention takes was never the source's
        usual = TURNS_OF_BOTH if self._has_both else TURNS
        for _ in range({"": usual, CUT_IS_PASSED: 1}.get(self._run.variant, TURNS_OF_BROKEN)):
            self._topics.write()
            self._happens()
            self._outage()
            self._life()
            self._audit_between()
        self._verify()
        self._truncated()
        self._made_again()

    def _run_well(self, which: str) -> None:
        self._step(f"{which} runs to its end")
        job = self._start()
        try:
            if (status := self._end(job)) != 0:
                raise Failed(f"{which} ended with {status}; its log: {self._tail()}", self._steps)
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
        if not self._run.variant and self._later_rng.random() < IMPATIENT:
            self._impatient_producer()

    def _broker_dies(self) -> None:
        self._down = self._rng.choice(self._cluster.nodes)
        self._step(f"broker {self._down} is killed")
        self._cluster.kill(self._down)
        self._run.counts[BROKERS] += 1

    def _impatient_producer(self) -> None:
        dies = self._down is None and self._later_rng.random() < 0.5
        if dies:
            self._down = leaders(self._topics.settings, self._topics.name(PLAIN))[0]
            self._run.counts[BROKERS] += 1
        self._step(f"messages are sent twice{f', while broker {self._down} is killed' if dies else ''}")
        self._topics.write_impatiently(lambda: self._cluster.kill(self._down or 0) if dies else None)

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
            self._states_lost = True
            self._run.counts[STATES] += 1

    def _tables(self) -> list[Path]:
        names = (source.partition(":")[0] for source in SOURCES)
        return [table for name in names if (table := self._folder / name).exists()]

    def _outage(self) -> None:
        if self._run.variant == OUTAGE_IS_FAULT or self._avro_rng.random() < OUTAGES:
            self._step("the schema registry does not answer for some seconds")
            self._registry.fail(self._avro_rng)

    # -- jobs

    def _life(self) -> None:
        races = self._run.variant == LOST_IS_WON or self._rng.random() < 0.3
        engines = self._engines(2 if races else 1)
        jobs = [self._start(engine) for engine in engines]
        self._run.counts[RACES] += races
        self._run.counts[RACES_OF_BOTH] += len({*engines}) == 2
        moments = {LATE_LETTERS: [LETTERS_WAIT], LOST_IS_WON: [""]}.get(self._run.variant, [*MOMENTS, ANY_TIME, ""])
        moment = self._rng.choice(moments)
        try:
            if moment:
                self._kill(jobs[0], moment, START_SECS[engines[0]])
            for job in jobs:
                self._end(job)
        finally:
            for job in jobs:
                job.stop()

    def _engines(self, jobs: int) -> list[str]:
        """One for each job: of two, one each if the round has both."""
        return self._engine_rng.sample([*ENGINES], jobs) if self._has_both else ["local"] * jobs

    def _start(self, engine: str = "") -> ChildProcess:
        engine = engine or self._engines(1)[0]
        words = [self._run.variant or "-", "--config", str(self._configuration()), "--once", "--engine", engine]
        words += ["--jars", str(CHECKOUT / "jars")] if engine == "spark" else []
        self._run.counts[ENGINES[engine]] += 1
        return ChildProcess(["tests.proof.kafka.job", *words], {}, self._log)

    def _kill(self, job: ChildProcess, moment: str, start_secs: float) -> None:
        if moment == ANY_TIME:
            self._wait(job, None, self._rng.uniform(0.3, start_secs))
        elif not self._wait(job, moment, LIFE_SECS, self._avro_rng.choice(SOURCES)):
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

    def _wait(self, job: ChildProcess, event: str | None, secs: float, source: str = "") -> bool:
        """Whether the job has logged the event, of this source if it is one of MOMENTS; it may end before."""
        deadline = time.monotonic() + secs
        while time.monotonic() < deadline and (job.exit_status is None or not job.events.empty()):
            if job.events.empty():
                time.sleep(0.01)
            else:
                found = self._noted(job.events.get())
                if found["event"] == event and (event not in MOMENTS or found["source"] == source):
                    return True
        return False

    def _noted(self, event: "dict[str, object]") -> "dict[str, object]":
        if event["event"] == "offsets_lost":
            self._run.counts[GAPS] += 1
        return event

    def _end(self, job: ChildProcess) -> int | None:
        secs = LONG_LIFE_SECS if self._has_both else LIFE_SECS
        self._wait(job, None, secs)
        if job.exit_status is None:
            job.kill()
            raise Failed(f"a job did not end within {secs:.0f} s; its log: {self._tail()}", self._steps)
        return job.exit_status

    def _configuration(self) -> Path:
        """Of one job: of two that race, each has batches of another size."""
        self._jobs += 1
        file = self._folder / f"pipelines-{self._jobs}.yaml"
        records_a_batch = (50, 200, 1000)[(self._jobs + self._rng.randrange(2)) % 3]
        if self._run.variant == LOST_IS_WON:  # each job of a race has several batches, and one of them larger ones
            records_a_batch = (20, 100)[self._jobs % 2]
        return self._written(file, self._pipelines(records_a_batch))

    def _written(self, file: Path, pipelines: Mapping[str, object]) -> Path:
        file.write_text(json.dumps({"pipelines": pipelines}))
        return file

    def _pipelines(self, records_a_batch: int = 1000) -> "dict[str, dict[str, object]]":
        shared = {
            "checkpoint": {"interval_records": records_a_batch},
            "retries": {"max_attempts": 12, "max_backoff_secs": 1},
        }
        kafka = {"bootstrap_servers": self._cluster.bootstrap_servers, "on_lost_offsets": "continue"}
        envelopes = {"kafka": {**kafka, "topic_pattern": f"{self._topics.prefix}-.*"}, "format": "envelope", **shared}
        records = {"kafka": {**kafka, "topics": [self._topics.name(PLAIN)]}, "format": "ndjson", **shared}
        records["schema"] = "id STRING, n BIGINT"
        avros = {"kafka": {**kafka, "topics": [self._topics.name(AVRO)]}, "format": "avro", "schema": COLUMNS, **shared}
        avros["avro"] = {"registry": {"url": self._registry.url}}
        return {
            "envelopes": {"table_uri": str(self._folder / "envelopes"), "sources": {"all": envelopes}},
            "records": {"table_uri": str(self._folder / "records"), "sources": {"plain": records}},
            "avros": {"table_uri": str(self._folder / "avros"), "sources": {"avro": avros}},
        }

    # -- the verdict

    def _verify(self) -> None:
        if self._down is not None:
            self._cluster.start(self._down)
            self._down = None
        self._cluster.wait()
        self._registry.recover()
        self._run_well("the last job")
        now = self._topics.look()
        every = {self._topics.name(topic) for topic in PARTITIONS}
        plain, avro = {self._topics.name(PLAIN)}, {self._topics.name(AVRO)}
        envelopes = read_table(
            self._folder / "envelopes", "_blizzard/envelopes_all", "envelopes:all", "message_payload"
        )
        records = read_table(self._folder / "records", "_blizzard/records_plain", "records:plain", "id")
        avros = read_table(self._folder / "avros", "_blizzard/avros_avro", "avros:avro", "id")
        counts = self._run.counts
        counts[COMPARED] += compare(self._topics, now, envelopes, every, self._steps)
        counts[COMPARED] += compare(self._topics, now, records, plain, self._steps, json_record)
        counts[COMPARED] += compare(self._topics, now, avros, avro, self._steps, self._registry.record)
        counts[COMPACTED_AWAY] += self._topics.compacted_away(now)
        counts[TWICE] += self._topics.stored_twice(now)
        self._audit(now, records)

    def _audit(self, now: Mapping[Place, object], records: Read) -> None:
        """It finds nothing wrong, and of a copy of the table the message that somebody takes out."""
        audits.check_good(self._audited("audited", self._pipelines()), self._steps, states_lost=self._states_lost)
        self._run.counts[AUDITED] += len(SOURCES)
        about = records, now, self._topics.name(PLAIN), self._later_rng
        for count, place, copy in audits.planted(self._folder / "records", *about):
            of_copy = {**self._pipelines()["records"], "table_uri": str(copy)}
            [report] = self._audited("copy", {"records": of_copy})
            audits.check_missed(report, place, self._steps)
            self._run.counts[count] += 1

    def _audited(self, name: str, pipelines: Mapping[str, object]) -> "list[dict[str, object]]":
        return audits.audit(self._written(self._folder / f"{name}.yaml", pipelines), self._run.variant)

    def _audit_between(self) -> None:
        if self._run.variant or self._later_rng.random() >= BETWEEN:
            return
        self._step("an audit before the next job")
        answered = audits.check_not_bad(self._audited("audited", self._pipelines()), self._steps)
        self._run.counts.update({AUDITED: answered, UNANSWERED_AUDITS: len(SOURCES) - answered})

    def _truncated(self) -> None:
        """All replicas of a partition lose their log, and it gets other messages with the same offsets, and more of
        them: no job reads on."""
        self._topics.write_to_first()
        self._run_well("the last job")  # its commit has the epochs of all partitions, also if the state was lost before
        name, end = self._topics.name(PLAIN), self._topics.end_of_first()
        self._step(f"partition {name}/0 loses its log, and is longer again")
        for node in self._cluster.nodes:
            self._cluster.kill(node)
        for node in self._cluster.nodes:
            shutil.rmtree(self._run.folder / "brokers" / f"broker-{node}" / "data" / f"{name}-0")
        for node in self._cluster.nodes:
            self._cluster.start(node, wait=False)
        self._cluster.wait()
        until(lambda: len(leaders(self._topics.settings, name)) == self._topics.partitions(PLAIN), "leaders")
        self._topics.write_to_first(end + 1)
        self._refused(f"partition {name}/0 was truncated below offset {end}", "a log that was truncated was read on")
        self._run.counts[TRUNCATED] += 1

    def _made_again(self) -> None:
        """A topic is not taken for the one before."""
        name = self._topics.name(TRANSACTIONS)
        self._step(f"topic {name} is made again")
        delete_topic(self._topics.settings, name)
        create_topic(self._topics.settings, name, PARTITIONS[TRANSACTIONS])
        self._refused("was deleted and made again", "a topic that was made again was read on")
        self._run.counts[AGAIN] += 1

    def _refused(self, expected: str, otherwise: str) -> None:
        """A job fails, and says so."""
        job = self._start()
        try:
            while job.exit_status is None:
                time.sleep(0.01)
        finally:
            job.stop()  # what it has said is read by then
        said: list[object] = []
        while not job.events.empty():
            said.append(job.events.get())
        if job.exit_status == 0 or expected not in str(said):
            raise Failed(f"nobody's: {otherwise}, exit code {job.exit_status}; its log: {self._tail()}", self._steps)

    def _tail(self) -> str:
        """The end of the jobs' log, which is gone with the campaign."""
        return self._log.read_text()[-2000:]

    def _step(self, what: str) -> None:
        self._steps.append(what)
        self._run.say(what)
