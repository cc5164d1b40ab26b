"""A topic, a table, and jobs that read one into the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from blizzard.config.load import parse_config
from blizzard.state.dead_letters import DeadLetters
from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from infra.local.kafka.cluster import KafkaCluster
from spark_job.engines.auto import AutoEngine
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.spark.engine import SparkEngine
from spark_job.tasks.engine import Engine
from spark_job.topic_wiring import topic_job
from spark_job.wiring import SourceJob
from tests.kafka.topics import produce

Place = tuple[int, int]
"""Partition and offset."""


class TopicLake:
    """`settings` of the brokers; `source`: further lines of the source, `kafka`: of its block."""

    def __init__(self, folder: Path, kafka: KafkaCluster, topic: str) -> None:
        self.table = folder / "lake" / "t"
        self.settings = kafka.client_settings()
        self.servers = kafka.bootstrap_servers
        self.topic = topic
        self.pipeline_name, self.source = "p", "clicks"
        self.events: list[dict[str, Any]] = []
        self.on_event: Callable[[str], None] = lambda event: None
        self._engines: list[LocalEngine] = []
        self.spark: Callable[[], Any] | None = None
        """A session; None: jobs have the local engine."""
        self.auto = False
        """With a session: jobs have the local engine, and Spark for what needs it."""

    def produce(self, *payloads: Any) -> list[Place]:
        return produce(self.settings, self.topic, payloads)

    def configuration(self, source: str, kafka: str = "", pipeline: str = "") -> str:
        topics = "" if "topic" in kafka else f"topics: [{self.topic}], "
        return f"""
            pipelines:
              {self.pipeline_name}:
                table_uri: {self.table}
                {pipeline}
                sources:
                  {self.source}:
                    kafka: {{bootstrap_servers: "{self.servers}", {topics}{kafka}}}
                    {source}
        """

    def config_file(self, source: str = "format: envelope", kafka: str = "", pipeline: str = "") -> Path:
        """The configuration, for commands."""
        file = self.table.parent.parent / "pipelines.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.configuration(source, kafka, pipeline))
        return file

    def job(self, source: str = "format: envelope", kafka: str = "", pipeline: str = "") -> SourceJob:
        (found,) = self.jobs(source, kafka, pipeline)
        return found

    def jobs(self, source: str = "format: envelope", kafka: str = "", pipeline: str = "") -> list[SourceJob]:
        """`source`: may go on with further sources of topics."""
        made = []
        for found in parse_config(self.configuration(source, kafka, pipeline), {}, folder="/").sources():
            assert found[1].kafka is not None
            s3 = S3Settings()
            made.append(topic_job(*found, found[1].kafka, engine=self._engine(), s3=s3, log=self._note))
        return made

    def _engine(self) -> Engine:
        spark = self.spark
        if spark is not None and not self.auto:
            return SparkEngine(spark)
        self._engines.append(local := LocalEngine(S3Settings(), dict, self._note, cores=2))
        return local if spark is None else AutoEngine(local, lambda: SparkEngine(spark), self._note)

    def run(self, source: str = "format: envelope", kafka: str = "", pipeline: str = "") -> None:
        """A new process's worth: nothing is known but what is stored."""
        self.job(source, kafka, pipeline).ingest.drain()

    def _note(self, event: str, /, **fields: object) -> None:
        self.events.append({"event": event, **fields})
        self.on_event(event)

    def named(self, event: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["event"] == event]

    def rows(self) -> list[dict[str, Any]]:
        """In the order of their places; doubled rows are there twice."""
        rows: list[dict[str, Any]] = DeltaTable(self.table).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: (row["_source"]["file"], row["_source"]["row"]))

    def places(self) -> list[Place]:
        """Of all rows."""
        return [(int(r["_source"]["file"].rpartition("/")[2]), r["_source"]["row"]) for r in self.rows()]

    def letters(self) -> list[dict[str, Any]]:
        found = DeadLetters(LocalStore(self.table), "_blizzard/p_clicks", "p:clicks").letters()
        return sorted(found, key=lambda letter: (letter["path"], letter["row"]))

    def txns(self) -> dict[str, int]:
        """Of the whole log, the newest of each app id."""
        found: dict[str, int] = {}
        for file in sorted((self.table / "_delta_log").glob("*.json")):
            for line in file.read_text().splitlines():
                if (txn := json.loads(line).get("txn")) is not None:
                    found[txn["appId"]] = txn["version"]
        return found

    def close(self) -> None:
        for engine in self._engines:
            engine.close()


NewLake = Callable[..., TopicLake]
"""`new_lake(partitions=1, **settings)`."""
