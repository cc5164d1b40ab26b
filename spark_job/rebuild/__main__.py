"""`python -m spark_job.rebuild REQUEST`, which `blizzard rebuild` runs."""

import sys

from spark_job.rebuild.main import main
from spark_job.start import end_process

if __name__ == "__main__":
    end_process(main(sys.argv[1]))
