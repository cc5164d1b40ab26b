"""Executes benchmarks' works one after the other, each with a Spark session of its own: a JVM's start takes longer than
a tiny work.

Each line on standard input is a JSON object: `task` and `answer` are the files of `python -m benchmarks.contenders`,
and `environment` has the variables of this work. After each work it prints DONE.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from pyspark import SparkContext

from benchmarks.contenders import Work
from benchmarks.contenders.__main__ import main as execute
from benchmarks.resource_monitor import ResourceMonitor, ResourceUsage
from benchmarks.s3_stand_in import CREDENTIALS
from blizzard.config.spark_settings import settings
from blizzard.environment import temporary_variables, variables
from blizzard.log import silent
from infra.local.processes.checkout import CHECKOUT
from spark_job.session import lazy_session
from tests.spark.lake import JARS, SHORT_JOB

DONE = "done\n"
Answers = tuple[list[dict[str, Any]], ResourceUsage]
Contenders = Callable[[Work, Path, Mapping[str, str]], Answers]


@contextmanager
def contender_process(log: Path) -> Iterator[Contenders]:
    """A function like `benchmarks.process.run_process`, whose works share one process, started at the first of them."""
    started: list[Popen[str]] = []

    def run(work: Work, folder: Path, environment: Mapping[str, str]) -> Answers:
        if not started:
            started.append(_start(log))
        process = started[0]
        assert process.stdin is not None
        assert process.stdout is not None
        task, answer = folder / "work.json", folder / "answer.json"
        task.write_text(replace(work, spark_conf={**work.spark_conf, **SHORT_JOB}).to_json())
        told = {"task": str(task), "answer": str(answer), "environment": {**environment}}
        with ResourceMonitor(process.pid) as watch:
            print(json.dumps(told), file=process.stdin, flush=True)
            assert any(line == DONE for line in process.stdout), log.read_text()[-3000:]
        return json.loads(answer.read_text()), watch.usage()

    try:
        yield run
    finally:
        for process in started:
            process.communicate()


def _start(log: Path) -> "Popen[str]":
    command = [sys.executable, "-m", "tests.spark.contender_process"]
    # What the JVM signs its requests with, it reads from its environment.
    environment = {**variables(), **CREDENTIALS}
    with log.open("w") as errors:
        return Popen(command, cwd=CHECKOUT, env=environment, stdin=PIPE, stdout=PIPE, stderr=errors, text=True)


def main() -> None:
    # Settings with which the JVM is started stay those of all its sessions: none of a single work.
    lazy_session({**settings(jars_dir=str(JARS)), **SHORT_JOB}, silent)().stop()
    for line in sys.stdin:
        told = json.loads(line)
        with temporary_variables(told["environment"]):
            execute([told["task"], told["answer"]])
        _forget()
        print(DONE, end="", flush=True)


def _forget() -> None:
    """The next work may have another table and another S3 under the same names."""
    jvm = SparkContext._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()


if __name__ == "__main__":
    main()
