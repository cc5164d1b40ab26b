"""Entry point for spark-submit when the job's code comes in an archive (`spark.archives`) that is on PYTHONPATH."""

import sys

PYTHON = (3, 11)
"""The archive's packages are compiled for it."""


# Annotations only as comments: an old Python must get as far as to say what is wrong.
def wrong_python(found, executable):
    # type: (tuple[int, int], str) -> str | None
    """Why the job cannot run with this Python; None: it can."""
    if found == PYTHON:
        return None
    expected, is_now = (".".join(map(str, version)) for version in (PYTHON, found))
    return (
        f"blizzard: expected Python {expected}, for which the packages in the job's archive are compiled, found "
        f"{is_now} ({executable}). Use the EMR release that `make publish` names, whose image has python{expected}, "
        "and leave PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON as the dispatcher sets them."
    )


if __name__ == "__main__":
    reason = wrong_python(sys.version_info[:2], sys.executable)
    if reason is not None:
        sys.exit(reason)

    if "--probe" in sys.argv[1:]:
        from spark_job.probe.main import main
    else:
        from spark_job.main import main

    sys.exit(main())
