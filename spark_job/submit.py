"""Entry point for spark-submit where the job's code comes in an archive (`spark.archives`), which is on PYTHONPATH."""

import sys

from spark_job.main import main

if __name__ == "__main__":
    sys.exit(main())
