"""Executes the runs of one contender in this process: `python -m benchmarks.contenders WORK.json ANSWER.json`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work, contender
from benchmarks.resource_monitor import tree_cpu_secs


def answers_of(work: Work) -> list[dict[str, Any]]:
    """Executes the runs. Each answer has these times in addition to the contender's own values:

    `secs`: duration; that of the first run counts from the start of the process, so it includes imports and JVM.
    `cpu_secs`: CPU time of this process and its descendants. `clock`: monotonic times from which `secs` counts, at
    which the work began, and at which it ended.
    """
    answers = []
    with contender(work.contender).opened(work) as run:
        for number in range(work.runs):
            worked_before = tree_cpu_secs(os.getpid())
            began, began_ts = time.monotonic(), time.time()
            answer = run(number)
            ended, ended_ts = time.monotonic(), time.time()
            counts_from = work.started if number == 0 else began
            times = {
                "secs": ended - counts_from,
                "clock": {"from": counts_from, "began": began, "ended": ended},
                "began_ts": began_ts,
                "ended_ts": ended_ts,
                "cpu_secs": tree_cpu_secs(os.getpid()) - worked_before,
            }
            answers.append({**times, **answer})
    return answers


def main(arguments: list[str]) -> None:
    task, answer = map(Path, arguments)
    answers = answers_of(Work.from_json(task.read_text()))
    answer.write_text(json.dumps(answers))
    _stop_spark()


def _stop_spark() -> None:
    """Stops the session, if there is one, so that Spark's event log is complete."""
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
