"""Entry point of a probe: one JSON line that says what a run finds where it runs.

Imports only what has no packages: if one is missing, the line has to say so.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blizzard.environment import variables
from blizzard.log import Log, silent, stdout_log
from spark_job.probe.checks import Checks
from spark_job.probe.python_process import describe_process, describe_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from blizzard.config.model import Config
    from spark_job.probe.scratch import Scratch


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 once the line is printed, whatever it says: who reads it judges."""
    options = _options(arguments)
    run_probe(options.config, options.probe, start_session, variables(), stdout_log(time.time))
    sys.stdout.flush()
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="blizzard-job", description="Print what a run finds where it runs.")
    parser.add_argument("--probe", required=True, type=_probe_id, metavar="ID", help="what the line is to be found by")
    parser.add_argument("--config", required=True, help="path or s3:// URI of the configuration")
    return parser.parse_args(arguments)


def _probe_id(text: str) -> str:
    """It is part of a key."""
    if not re.fullmatch("[a-z0-9-]{1,64}", text):
        raise argparse.ArgumentTypeError(f"expected letters a to z, digits and hyphens, found {text!r}")
    return text


def start_session() -> "SparkSession":
    """With the settings of spark-submit."""
    from spark_job.session import lazy_session

    return lazy_session({}, silent)()


def run_probe(
    config_uri: str, probe_id: str, session: Callable[[], "SparkSession"], environ: Mapping[str, str], log: Log
) -> None:
    """Run every check and log one event. A section whose check failed is null, and `failed` says why."""
    checks = Checks()
    driver = checks.run("driver", describe_process)
    config = checks.run("config", lambda: _read_config(config_uri, environ))
    spark = checks.run("spark", session)
    versions = checks.run_with(spark, "jvm", _jvm_versions)
    jars = checks.run_with(spark, "jars", _jar_names)
    executor = checks.run_with(spark, "executor", _on_executor)
    rights = checks.run_with(config, "rights", lambda found: _rights(found, config_uri, probe_id, environ))
    log_stores = checks.run_with(spark, "log_store", lambda found: _log_stores(found, config))
    written = checks.run_with(config, "scratch", lambda found: _written(checks, found, spark, probe_id, environ))
    log(
        "probed",
        id=probe_id,
        driver=driver,
        executor=executor,
        jvm=versions,
        jars=jars,
        log_store=log_stores,
        written=written,
        rights=rights,
        failed=checks.failed,
        check_secs=checks.secs,
    )


def _read_config(uri: str, environ: Mapping[str, str]) -> "Config":
    from blizzard.config.load import parse_config
    from blizzard.storage.open import read_text
    from blizzard.storage.s3_connection import S3Settings

    return parse_config(read_text(uri, S3Settings.from_environment(environ)), environ, name=uri)


def _jvm_versions(spark: "SparkSession") -> dict[str, str | None]:
    from spark_job.probe.jvm import jvm_versions

    return jvm_versions(spark)


def _jar_names(spark: "SparkSession") -> dict[str, list[str]]:
    from spark_job.probe.jvm import jar_names

    return jar_names(spark)


def _on_executor(spark: "SparkSession") -> dict[str, Any]:
    """One task. It imports this package there, so its failure says whether the archive has arrived."""
    (found,) = spark.sparkContext.parallelize([0], 1).mapPartitions(describe_processes).collect()
    return found


def _log_stores(spark: "SparkSession", config: "Config | None") -> dict[str, str]:
    from spark_job.probe.jvm import log_store_classes

    pipelines = () if config is None else config.pipelines.values()
    return log_store_classes(spark, (pipeline.table_uri for pipeline in pipelines))


def _rights(config: "Config", config_uri: str, probe_id: str, environ: Mapping[str, str]) -> dict[str, Any]:
    from blizzard.storage.open import open_store
    from blizzard.storage.s3_connection import S3Settings
    from spark_job.probe.rights import try_rights

    s3 = S3Settings.from_environment(environ)
    found = try_rights(config, config_uri, probe_id, lambda uri, log: open_store(uri, s3, may_be_missing=True, log=log))
    return {"tried": found.tried, "denied": found.denied}


def _written(
    checks: Checks, config: "Config", spark: "SparkSession | None", probe_id: str, environ: Mapping[str, str]
) -> dict[str, Any]:
    """What the storage of the first table does with writes. Each finding is null if its check failed."""
    from blizzard.storage.open import open_store
    from blizzard.storage.s3_connection import S3Settings
    from spark_job.probe import scratch

    table_uri = next(iter(config.pipelines.values())).table_uri.rstrip("/")
    store = open_store(table_uri, S3Settings.from_environment(environ), may_be_missing=True)
    with scratch.scratch_folder(store, probe_id) as made:
        refused = checks.run("conditional_put", lambda: scratch.create_twice(made))
        winners = checks.run("race", lambda: scratch.winners_of_race(made))
        fenced = checks.run("numbered_objects", lambda: scratch.numbers_are_fenced(made))
        by_log_store = checks.run_with(spark, "log_store_put", lambda found: _entry_twice(found, table_uri, made))
    return {
        "table_uri": table_uri,
        "second_put_refused": refused,
        "second_commit_refused": by_log_store,
        "winners_of_race": winners,
        "numbers_fenced": fenced,
        "left_behind": made.left_behind,
    }


def _entry_twice(spark: "SparkSession", table_uri: str, made: "Scratch") -> bool:
    from spark_job.probe.jvm import create_entry_twice

    return create_entry_twice(spark, f"{table_uri}/{made.folder}".rstrip("/"))
