"""The job in a process of its own: `python -m tests.proof.kafka.job VARIANT ARGUMENTS…`. VARIANT - breaks nothing."""

import sys

from spark_job.main import main
from spark_job.start import end_process
from tests.proof.kafka.variants import BREAKS


def run(variant: str, arguments: list[str]) -> int:
    if variant != "-":
        BREAKS[variant]()
    return main(arguments)


if __name__ == "__main__":
    end_process(run(sys.argv[1], sys.argv[2:]))
