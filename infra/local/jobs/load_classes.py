"""A small job that loads the same classes as a large one, for the class data sharing archive.

`load_classes SCRATCH JARS` ingests good records, bad records, records that only Spark's own parser reads, and late
files. Then Delta writes a checkpoint, Spark runs a query, and an S3A client is created, which sends no request. With
`--as-a-run` the class path is that of a job run on the local AWS. Delta's classes, which Spark then loads later, are
not archived, so its checkpoint is left out.
"""

import gzip
import json
import sys
from pathlib import Path

from blizzard.config.load import parse_config
from blizzard.config.spark_settings import settings
from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from infra.local.jobs.emr_image import OWN_JAR, class_path, delta_jars
from spark_job.engines.spark.engine import SparkEngine
from spark_job.session import lazy_session
from spark_job.wiring import source_job

COMMITS, COMMITS_OF_A_RUN = 12, 3
"""Delta writes a checkpoint after the tenth."""


def main(scratch: Path, jars: str, *, as_a_run: bool) -> None:
    landing, table = scratch / "landing", scratch / "table"
    landing.mkdir()
    source = {"uri": str(landing), "schema": "id BIGINT NOT NULL, at TIMESTAMP, name STRING", "settle_delay_secs": 0}
    document = {"pipelines": {"events": {"table_uri": str(table), "sources": {"landing": source}}}}
    config = parse_config(json.dumps(document), {}, folder=str(scratch))
    of_a_run = _of_a_run(Path(jars)) if as_a_run else {}
    conf = {**settings(jars_dir=jars), "spark.master": "local[2]", "spark.log.level": "ERROR", **of_a_run}
    spark = lazy_session(conf, silent)
    ((pipeline, landed),) = config.sources()
    commits = COMMITS_OF_A_RUN if as_a_run else COMMITS
    for number in range(commits):
        lines = [json.dumps({"id": number, "at": "2024-01-28T00:00:00Z", "name": "x"}), '{"id": "1.0e1"}', '{"id": ']
        (landing / f"{commits - number:02}.ndjson.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        job = source_job(pipeline, landed, engine=SparkEngine(spark), s3=S3Settings(), log=silent)
        job.discovery.discover_all()
        job.ingest.drain()
    session = spark()
    session.read.format("delta").load(str(table)).groupBy("name").count().collect()
    jvm, hadoop = session._jvm, session._jsc.hadoopConfiguration()
    assert jvm is not None
    for key, value in {"endpoint": "http://127.0.0.1:9", "endpoint.region": "us-east-1"}.items():
        hadoop.set(f"fs.s3a.{key}", value)
    hadoop.set("fs.s3a.aws.credentials.provider", "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider")
    jvm.org.apache.hadoop.fs.Path("s3a://none/").getFileSystem(hadoop).close()
    session.stop()


def _of_a_run(jars: Path) -> dict[str, str]:
    named = [*delta_jars(jars), jars / OWN_JAR]
    return {"spark.driver.extraClassPath": class_path(jars), "spark.jars": ",".join(map(str, named))}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], as_a_run="--as-a-run" in sys.argv[3:])
