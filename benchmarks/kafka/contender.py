"""One contender of the benchmark `kafka`, in a process of its own: reads the whole topic into a table, twice, each time
into a new one. Prints the seconds of both runs as JSON; those of the first count from the start of the process."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.kafka.topic import PARTITIONS, SCHEMA, TOPIC

JARS = Path(__file__).parents[2] / "jars"


@dataclass(frozen=True, slots=True)
class Task:
    """`started_ts`: when the process was started, by the clock of the machine. `form`: `json` or `envelope`."""

    contender: str
    form: str
    servers: str
    messages: int
    folder: str
    cores: int
    started_ts: float

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def table(self, number: int) -> str:
        return f"{self.folder}/table-{number}"


def bare(task: Task) -> Callable[[int], None]:
    """librdkafka, which reads every message and throws it away."""
    from confluent_kafka import Consumer, TopicPartition

    def run(number: int) -> None:
        settings = {"bootstrap.servers": task.servers, "group.id": f"bare-{number}", "enable.auto.commit": False}
        ahead = {"queued.max.messages.kbytes": 64 << 10, "fetch.queue.backoff.ms": 10}
        consumer = Consumer({**settings, **ahead})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        left = task.messages
        while left:
            left -= sum(message.error() is None for message in consumer.consume(10_000, 0.05))
        consumer.close()

    return run


def blizzard(task: Task) -> Callable[[int], None]:
    from blizzard.config.load import parse_config
    from blizzard.log import silent
    from blizzard.storage.s3_connection import S3Settings
    from spark_job.topic_wiring import topic_job

    engine = _engine(task)

    def run(number: int) -> None:
        source: dict[str, Any] = {
            "kafka": {"bootstrap_servers": task.servers, "topics": [TOPIC]},
            "checkpoint": {"interval_records": 100_000_000, "interval_bytes": "64GiB"},
            **({"format": "ndjson", "schema": SCHEMA} if task.form == "json" else {"format": "envelope"}),
        }
        document = {"pipelines": {"p": {"table_uri": task.table(number), "sources": {"s": source}}}}
        [(pipeline, found)] = parse_config(json.dumps(document), {}, folder="/").sources()
        if found.kafka is None:
            raise TypeError("expected a source of topics")
        topic_job(pipeline, found, found.kafka, engine=engine, s3=S3Settings(), log=silent).ingest.drain()

    return run


def _engine(task: Task) -> Any:
    from blizzard.log import silent
    from blizzard.storage.s3_connection import S3Settings

    if task.contender.endswith("local"):
        from spark_job.engines.local.engine import LocalEngine

        return LocalEngine(S3Settings(), dict, silent, cores=task.cores)
    from spark_job.engines.spark.engine import SparkEngine

    return SparkEngine(_session(task, ()))


def streaming(task: Task) -> Callable[[int], None]:
    """Structured Streaming, with availableNow."""
    from pyspark.sql.functions import col, from_json

    from infra.local.processes.checkout import CHECKOUT
    from infra.tools.java_programs import SPARK_KAFKA, JavaTools

    spark = _session(task, sorted(JavaTools(CHECKOUT).jars(SPARK_KAFKA).glob("*.jar")))

    def run(number: int) -> None:
        options = {"kafka.bootstrap.servers": task.servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
        frame = spark().readStream.format("kafka").options(**options, includeHeaders="true").load()
        if task.form == "json":
            frame = frame.select(from_json(col("value").cast("string"), SCHEMA).alias("r")).select("r.*")
        writer = frame.writeStream.format("delta").option("checkpointLocation", f"{task.folder}/stream-{number}")
        writer.trigger(availableNow=True).start(task.table(number)).awaitTermination()

    return run


def delta_ingest(task: Task) -> Callable[[int], None]:
    """A process for each run: a program of its own has nothing that is warm the second time."""
    from benchmarks.kafka.delta_ingest import ingest

    return lambda number: ingest(task.servers, TOPIC, task.table(number), columns=SCHEMA, messages=task.messages)


def _session(task: Task, more_jars: Any) -> Any:
    from blizzard.config.spark_settings import settings
    from blizzard.log import silent
    from spark_job.session import lazy_session

    conf = settings(jars_dir=str(JARS))
    own = {
        "spark.master": f"local[{task.cores}]",
        "spark.driver.memory": "4g",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": f"{task.folder}/warehouse",
    }
    if more_jars:
        own["spark.jars"] = ",".join([*filter(None, [conf.get("spark.jars")]), *map(str, more_jars)])
    return lazy_session({**conf, **own}, silent)


CONTENDERS: dict[str, Callable[[Task], Callable[[int], None]]] = {
    "bare consumer": bare,
    "Blizzard, local": blizzard,
    "Blizzard, spark": blizzard,
    "Structured Streaming": streaming,
    "kafka-delta-ingest": delta_ingest,
}


def main(text: str) -> None:
    task = Task.from_json(text)
    run = CONTENDERS[task.contender](task)
    secs, began_ts = [], task.started_ts
    for number in range(2):
        run(number)
        secs.append(time.time() - began_ts)
        began_ts = time.time()
    print(json.dumps(secs), flush=True)


if __name__ == "__main__":
    from spark_job.start import end_process

    main(sys.argv[1])
    end_process(0)
