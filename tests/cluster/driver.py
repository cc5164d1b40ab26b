"""The job's driver, `spark_job.main`, with as many tasks as wanted, however little there is to read."""

import sys
from collections.abc import Sequence

from spark_job.main import main
from spark_job.start import end_process
from spark_job.tasks import batch_tasks


def run(words: Sequence[str]) -> int:
    batch_tasks.MIN_TASK_BYTES = 1
    return main([*words])


if __name__ == "__main__":
    end_process(run(sys.argv[1:]))
