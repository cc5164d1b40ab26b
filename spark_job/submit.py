"""Entry point for spark-submit when the job's code comes in an archive (`spark.archives`) that is on PYTHONPATH."""

import sys

from spark_job.main import main

if __name__ == "__main__":
    sys.exit(main())
