"""Processes of the campaign `rebuild`: a job, and operators who run `blizzard rebuild`. Each may be killed between any
two calls of storage, and before and after each commit."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blizzard.config.change import replace_file, with_table_uri
from blizzard.config.load import load_config
from blizzard.config.model import Config, Pipeline
from blizzard.log import Log, stdout_log
from blizzard.storage.s3_connection import S3Settings
from spark_job.engines.local.engine import LocalEngine
from spark_job.engines.spark.engine import SparkEngine
from spark_job.main import run_once
from spark_job.rebuild import process
from spark_job.rebuild.compare import Accepted, Comparison
from spark_job.rebuild.main import with_table
from spark_job.rebuild.process import RebuildProcess
from spark_job.table.delta_table import DeltaSourceTable
from spark_job.tasks.engine import Engine
from spark_job.wiring import source_job
from tests.proof.kill import steps
from tests.proof.kill.job import attached
from tests.proof.kill.names import Whom

JOB, MOVER, RESTORER = "job", "operator who moves the table", "operator who rebuilds the state"
PIPELINE = "orders"
NOT_MARKED = "a table whose place was taken is not marked"
NOT_COMPARED = "tables are swapped without a comparison"
ROWS_UNREAD = "a rebuilt state does not ask the table's rows"


def run_process(
    who: str, config: str, *, step: str, nth: int, seed: str, variant: str, to: str = "", has_spark: bool = False
) -> int:
    """`config`: path of the configuration, as this process reads it when it starts. `step` and `nth`: where it is
    killed, by the steps of the campaign `kill`; empty: nowhere. `to`: the table that is to take the place. `has_spark`:
    its engine is Spark, in the JVM that the environment names."""
    os.fsync = lambda fd: None  # SIGKILL loses nothing that was written to the kernel
    steps.prepare(step, steps.KillPoint(nth=nth, group=0, trap="", seed=seed, whom=Whom.JOB))
    BREAKS.get(variant, lambda: None)()
    log = stdout_log(time.time)
    engine = SparkEngine(attached({}, log)) if has_spark else LocalEngine(S3Settings(), dict, log, cores=1)
    read = load_config(Path(config), {})
    if who == JOB:
        return _run(read, engine, log)
    process.tell = _tell
    operator = RebuildProcess(read, lambda _: engine, S3Settings(), lambda: True, threading.Event(), log)
    if who == RESTORER:
        return operator.rebuild_states([*read.sources()])
    return _move(operator, read.pipelines[PIPELINE], Path(config), to)


def _run(config: Config, engine: Engine, log: Log) -> int:
    jobs = [
        source_job(pipeline, source, engine=engine, s3=S3Settings(), log=log) for pipeline, source in config.sources()
    ]
    return run_once(jobs, True, log, threading.Event())


def _move(operator: RebuildProcess, old: Pipeline, config: Path, to: str) -> int:
    """As the command does it."""
    if (code := operator.rebuild_table(old, with_table(old, to), swap=True, accepted=Accepted())) == 0:
        replace_file(config, with_table_uri(config, {}, PIPELINE, to))
    return code


def _tell(**what: Any) -> None:
    sys.stdout.write(json.dumps({"event": "told", **what}) + "\n")
    sys.stdout.flush()


def _not_marked() -> None:
    process.move = lambda *_, **__: False


def _not_compared() -> None:
    process.compared_tables = lambda old, *_: Comparison(old.source_id)


def _rows_unread() -> None:
    DeltaSourceTable.files_of_commits = lambda *_: iter(())  # type: ignore[method-assign,assignment,return-value]


BREAKS: Mapping[str, Callable[[], None]] = {
    NOT_MARKED: _not_marked,
    NOT_COMPARED: _not_compared,
    ROWS_UNREAD: _rows_unread,
}
