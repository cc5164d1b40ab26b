"""What the processes of the job begin and end with: signals, the configuration, the engines of its pipelines, exit
codes."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.config.load import parse_config
from blizzard.config.model import Config, Pipeline
from blizzard.config.spark_master import MASTER, SparkOptions
from blizzard.config.spark_settings import settings as spark_settings
from blizzard.log import Log
from blizzard.storage.open import read_text
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.choose import Engines
from spark_job.engines.local.table_options import table_options
from spark_job.session import java_for_spark, lazy_session, with_java_and_jars

EXIT_OK, EXIT_FAILED, EXIT_CONFIG, EXIT_STOPPED = 0, 1, 2, 130
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: threading.Event) -> None:
    """SIGTERM and SIGINT end the run after the step in progress. Called again once Spark has started, since Spark
    installs its own handlers."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: stop.set())


def config_at(uri: str, environ: Mapping[str, str], s3: S3Settings) -> Config:
    folder = None if "://" in uri else str(Path(uri).absolute().parent)
    return parse_config(read_text(uri, s3), environ, name=uri, folder=folder)


def engine_of(pipeline: Pipeline, wanted: str) -> EngineName:
    return EngineName(pipeline.engine if wanted == CONFIGURED else wanted)


def engines_for(
    config: Config, jars: str | None, options: SparkOptions, s3: S3Settings, log: Log, on_start: Callable[[], None]
) -> Engines:
    """Starts none of them."""
    for_executors = sorted(map(str, Path(jars).glob("*.jar"))) if jars is not None and options.on_cluster else None
    conf = spark_settings(jars_dir=jars, for_executors=for_executors, s3_endpoint=s3.endpoint_url, s3_region=s3.region)
    master = {} if options.master is None else {MASTER: options.master}
    spark = lazy_session({**conf, **options.conf, **master}, log, on_start=on_start)
    tables = [pipeline.table_uri for pipeline in config.pipelines.values()]
    if jars is None:
        return Engines(spark, s3, partial(table_options, tables, s3), log)
    spark = with_java_and_jars(spark, Path(jars), on_cluster=options.on_cluster)
    return Engines(spark, s3, partial(table_options, tables, s3), log, partial(java_for_spark, Path(jars)))


def end_process(code: int) -> None:
    """Threads of deltalake may abort a process that ends in the usual way, when its work is done and its exit code is
    known."""
    sys.stdout.flush()
    sys.stderr.flush()
    if "deltalake" in sys.modules:
        os._exit(code)
    sys.exit(code)
