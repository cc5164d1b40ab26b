"""The driver of the tests in tests/cluster, broken on purpose: `python -m tests.proof.cluster.driver VARIANT …`."""

import sys

from spark_job.start import end_process
from tests.cluster.driver import run
from tests.proof.cluster.variants import VARIANTS

if __name__ == "__main__":
    VARIANTS[sys.argv[1]]()
    end_process(run(sys.argv[2:]))
