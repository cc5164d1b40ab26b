"""`python -m spark_job`: as `python -m spark_job.main`, but the processes of the local engine do not import that module
again: multiprocessing leaves out a module of this name."""

import gc

if __name__ == "__main__":
    # What packages make while they are imported stays. The collector would look through it a hundred times, which is a
    # seventh of a run that finds nothing new.
    gc.disable()
    from spark_job.main import main
    from spark_job.start import end_process

    gc.freeze()
    gc.enable()
    end_process(main())
