"""`make demo-kafka`: messages of a real broker and their rows in Delta, while a job is killed and the broker restarted.

A verdict that knows nothing of Blizzard's state compares every offset with the table and the dead letters. `blizzard
audit` must agree with it.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from rich.console import Console

from infra.local.demo.audited import COMMAND
from infra.local.kafka.cluster import KafkaCluster
from infra.local.processes.checkout import CHECKOUT
from infra.local.processes.child_process import ChildProcess

TOPIC, PARTITIONS = "orders", 3
MESSAGES, BAD_EVERY = 30_000, 97
WAIT_SECS = 120.0
KILLS = 5
EXIT_GOOD, EXIT_BAD = 0, 1
Place = tuple[int, int]
"""Partition and offset."""


class DemoFailed(Exception):
    """A step did not happen in time."""


def main() -> int:
    """Returns the exit code. 0: every message is in the table once, or in one dead letter; 1: it is not."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="blizzard-demo-kafka-") as folder:
        try:
            return Demo(Path(folder), console).run()
        except DemoFailed as failed:
            console.print(f"[red]{failed}[/red]")
            return EXIT_BAD


class Demo:
    """`folder`: an empty one."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console = folder, console
        self._table, self._config = folder / "lake" / "orders", folder / "pipelines.yaml"
        self._rng = random.Random(24)
        self._next = 0

    def run(self) -> int:
        self._say("a broker starts")
        with KafkaCluster(self._folder / "broker") as cluster:
            self._prepare(cluster)
            self._say(f"{MESSAGES:,} messages are produced; one in {BAD_EVERY} is no JSON")
            self._produce(cluster, MESSAGES)
            self._kill_in_a_batch()
            with self._job() as job:
                count = self._wait(job, "messages_committed", "rows")
                self._say(f"a new job has committed {count:,} rows; a transaction is aborted, another one committed")
                self._transaction(cluster, commit=False)
                self._transaction(cluster, commit=True)
                self._say("the broker is killed, and comes back")
                cluster.kill(1)
                cluster.start(1)
                self._produce(cluster, MESSAGES // 10)
            self._say("a last run reads the rest")
            with self._job("--once") as job:
                self._wait_for_end(job)
                if job.exit_status != 0:
                    raise DemoFailed(
                        f"the last run ended with {job.exit_status}; its log: {self._log.read_text()[-2000:]}"
                    )
            return self._verdict(cluster)

    # -- what happens

    def _kill_in_a_batch(self) -> None:
        """Which the table shows: a kill may also come when the batch has just been committed."""
        for _ in range(KILLS):
            before = self._count()
            with self._job() as job:
                count = self._wait(job, "ranges_planned", "partitions")
                job.kill()
            if self._count() == before:
                self._say(f"the job reads a batch of {count} partitions, and is killed before it commits")
                return
        raise DemoFailed(f"the job had committed its batch before it was killed, {KILLS} times")

    def _count(self) -> int:
        """Of the rows in the table."""
        return self._rows().total() if self._table.exists() else 0

    @property
    def _log(self) -> Path:
        return self._folder / "job.log"

    def _prepare(self, cluster: KafkaCluster) -> None:
        admin = AdminClient(cluster.client_settings())
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], operation_timeout=30)[TOPIC].result(60)
        source = {
            "kafka": {"bootstrap_servers": cluster.bootstrap_servers, "topics": [TOPIC]},
            "format": "ndjson",
            "schema": "id BIGINT NOT NULL, price DOUBLE",
            "checkpoint": {"interval_records": 5000, "interval_secs": 1},
            "retries": {"max_attempts": 30, "max_backoff_secs": 2},
        }
        pipeline = {"table_uri": str(self._table), "sources": {"orders": source}}
        self._config.write_text(json.dumps({"pipelines": {"shop": pipeline}}))

    def _job(self, *words: str) -> ChildProcess:
        return ChildProcess(
            ["spark_job.main", "--config", str(self._config), "--engine", "local", *words], {}, self._log
        )

    def _wait(self, job: ChildProcess, event: str, count: str) -> int:
        """Until the job has logged the event with more than 0 in this field, which is returned: the commit that says
        where a source begins has neither files nor rows."""
        deadline = time.monotonic() + WAIT_SECS
        while time.monotonic() < deadline:
            if not job.events.empty():
                found = job.events.get()
                if found["event"] == event and found[count] > 0:
                    return int(found[count])
            elif job.exit_status is not None:
                raise DemoFailed(f"the job ended with {job.exit_status}: {self._log.read_text()[-2000:]}")
            else:
                time.sleep(0.01)
        raise DemoFailed(f"not within {WAIT_SECS:.0f} s: {event} with {count}")

    def _wait_for_end(self, job: ChildProcess) -> None:
        deadline = time.monotonic() + WAIT_SECS
        while job.exit_status is None:
            if time.monotonic() > deadline:
                raise DemoFailed(f"not within {WAIT_SECS:.0f} s: the end of the job")
            time.sleep(0.01)

    def _payloads(self, count: int) -> Iterator[bytes]:
        for _ in range(count):
            text = json.dumps({"id": self._next, "price": round(self._rng.random() * 100, 2)})
            is_bad = self._next in range(0, 10 * MESSAGES, BAD_EVERY)
            yield (text[:-2] if is_bad else text).encode()
            self._next += 1

    def _produce(self, cluster: KafkaCluster, count: int) -> None:
        producer = Producer({**cluster.client_settings(), "acks": "all", "log_level": 0})
        self._send(producer, count)

    def _transaction(self, cluster: KafkaCluster, *, commit: bool) -> None:
        settings = {**cluster.client_settings(), "transactional.id": "demo", "log_level": 0}
        producer = Producer(settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        self._send(producer, 500)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)

    def _send(self, producer: Producer, count: int) -> None:
        for payload in self._payloads(count):
            producer.produce(TOPIC, payload, partition=self._rng.randrange(PARTITIONS))
            producer.poll(0)
        if left := producer.flush(WAIT_SECS):
            raise DemoFailed(f"{left} messages were not acknowledged within {WAIT_SECS:.0f} s")

    # -- the verdict

    def _verdict(self, cluster: KafkaCluster) -> int:
        messages = dict(_messages(cluster))
        rows, letters = self._rows(), self._letters()
        missing = [place for place in messages if not rows[place] and not letters[place]]
        doubled = [place for place in {*rows, *letters} if rows[place] + letters[place] > 1]
        nobodys = [place for place in rows if place not in messages]
        wrong = [place for place, payload in messages.items() if bool(rows[place]) is not _is_json(payload)]
        self._say(
            f"{len(messages):,} messages: {sum(rows.values()):,} rows, {sum(letters.values()):,} dead letters; missing "
            f"{len(missing)}, doubled {len(doubled)}, never committed {len(nobodys)}, in the wrong place {len(wrong)}"
        )
        good = not (missing or doubled or nobodys or wrong)
        audit = subprocess.run(
            [sys.executable, "-c", COMMAND, "audit", "--json", str(self._config)],
            capture_output=True,
            text=True,
            check=False,
            cwd=CHECKOUT,
        )
        agrees = (audit.returncode == 0) is good
        [found] = json.loads(audit.stdout) if audit.returncode in (0, 1) else [{"verdict": audit.stderr[-500:]}]
        counts = f"{found.get('committed', 0):,} committed, {found.get('dead_lettered', 0):,} dead-lettered"
        self._say(f"blizzard audit: {found['verdict']}, {counts}")
        self._console.print("[green]Every message once.[/green]" if good and agrees else "[red]That is wrong.[/red]")
        return EXIT_GOOD if good and agrees else EXIT_BAD

    def _rows(self) -> Counter[Place]:
        found = DeltaTable(self._table).to_pyarrow_table(columns=["_source"])["_source"].to_pylist()
        return Counter((int(source["file"].rpartition("/")[2]), source["row"]) for source in found)

    def _letters(self) -> Counter[Place]:
        lines = [
            json.loads(line)
            for file in self._table.glob("_blizzard/*/dead_letters/*/*.ndjson")
            for line in file.read_text().splitlines()
        ]
        return Counter({(int(line["path"].rpartition("/")[2]), line["row"]) for line in lines})

    def _say(self, what: str) -> None:
        self._console.print(f"  {what}", soft_wrap=True)


def _messages(cluster: KafkaCluster) -> Iterator[tuple[Place, bytes]]:
    """Of committed transactions, and of none, from the beginning to the end."""
    consumer = Consumer(
        {
            **cluster.client_settings(),
            "group.id": "verdict",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    waiting = {*range(PARTITIONS)}
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in waiting])
    try:
        while waiting:
            message: Any = consumer.poll(WAIT_SECS)
            if message is None:
                raise DemoFailed(f"the broker does not answer within {WAIT_SECS:.0f} s")
            if message.error() is None:
                yield (message.partition(), message.offset()), message.value()
            elif message.error().code() == KafkaError._PARTITION_EOF:
                waiting.discard(message.partition())
    finally:
        consumer.close()


def _is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
