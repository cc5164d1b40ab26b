"""A small job that loads the same classes as a large one, for the class data sharing archive.

`load_classes SCRATCH JARS` ingests good records, bad records, records that only Spark's own parser reads, and late
files. Then Delta writes a checkpoint, Spark runs a query, and an S3A client is created, which sends no request.
"""

import gzip
import json
import sys
from pathlib import Path

from blizzard.config.load import parse_config
from blizzard.config.spark_settings import settings
from blizzard.log import silent
from blizzard.storage.s3_connection import S3Settings
from spark_job.session import lazy_session
from spark_job.wiring import source_job

COMMITS = 12
"""Delta writes a checkpoint after the tenth."""


def main(scratch: Path, jars: str) -> None:
    landing, table = scratch / "landing", scratch / "table"
    landing.mkdir()
    source = {"uri": str(landing), "schema": "id BIGINT NOT NULL, at TIMESTAMP, name STRING", "settle_delay_secs": 0}
    document = {"pipelines": {"events": {"table_uri": str(table), "sources": {"landing": source}}}}
    config = parse_config(json.dumps(document), {}, folder=str(scratch))
    conf = {**settings(jars_dir=jars), "spark.master": "local[2]", "spark.log.level": "ERROR"}
    spark = lazy_session(conf, silent)
    ((pipeline, landed),) = config.sources()
    for number in range(COMMITS):
        lines = [json.dumps({"id": number, "at": "2024-01-28T00:00:00Z", "name": "x"}), '{"id": "1.0e1"}', '{"id": ']
        (landing / f"{COMMITS - number:02}.ndjson.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        job = source_job(pipeline, landed, spark=spark, s3=S3Settings(), log=silent)
        job.sweep(late=False, record_if_empty=True)
        job.sweep(late=True, record_if_empty=True)
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


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
