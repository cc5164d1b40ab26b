"""`python -m spark_job.infer REQUEST`, which `blizzard init` runs."""

import sys

from spark_job.infer.main import main

if __name__ == "__main__":
    main(sys.argv[1])
