"""One contender's runs in a process of its own: `python -m benchmarks.contenders WORK.json ANSWER.json`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.contenders import Work, contender
from benchmarks.resource_monitor import tree_cpu_secs


def answers_of(work: Work) -> list[dict[str, Any]]:
    """Do the runs. The first one counts from the start of the process, with all that has to be imported and started.
    `cpu_secs`: what this process and all that it started worked during the run; `clock`: monotonic seconds, from which
    on it counts, when the work itself began, and when it was done."""
    answers = []
    with contender(work.contender).opened(work) as run:
        for number in range(work.runs):
            worked_before = tree_cpu_secs(os.getpid())
            began, began_ts = time.monotonic(), time.time()
            said = run(number)
            ended, ended_ts = time.monotonic(), time.time()
            counts_from = work.started if number == 0 else began
            times = {
                "secs": ended - counts_from,
                "clock": {"from": counts_from, "began": began, "ended": ended},
                "began_ts": began_ts,
                "ended_ts": ended_ts,
                "cpu_secs": tree_cpu_secs(os.getpid()) - worked_before,
            }
            answers.append({**times, **said})
    return answers


def main(arguments: list[str]) -> None:
    task, answer = map(Path, arguments)
    answers = answers_of(Work.from_json(task.read_text()))
    answer.write_text(json.dumps(answers))
    _stop_spark()


def _stop_spark() -> None:
    """If there is one: in good order, so that its record of tasks is complete."""
    if "pyspark.sql" in sys.modules:
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
