"""`python -m spark_job`: as `python -m spark_job.main`, but the processes of the local engine do not import that module
again: multiprocessing leaves out a module of this name."""

from spark_job.main import main
from spark_job.start import end_process

if __name__ == "__main__":
    end_process(main())
