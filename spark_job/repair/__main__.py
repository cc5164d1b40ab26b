"""`python -m spark_job.repair REQUEST`, which `blizzard replay` and `blizzard replace` run."""

import sys

from spark_job.repair.main import main
from spark_job.start import end_process

if __name__ == "__main__":
    end_process(main(sys.argv[1]))
