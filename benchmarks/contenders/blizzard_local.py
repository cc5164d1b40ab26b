"""Blizzard with its local engine: the same job as `blizzard`, without Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work, blizzard
from blizzard.log import silent

TITLE = "Blizzard, local engine"
UNSUPPORTED: dict[str, str] = {}
prepare = blizzard.prepare
commits = blizzard.commits


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from spark_job.engines.local.engine import LocalEngine

    drained = blizzard.draining(work)
    engine = LocalEngine(blizzard.s3_settings(), dict, silent, cores=work.cores)
    try:

        def run(number: int) -> dict[str, Any]:
            return drained(number, engine)

        yield run
    finally:
        engine.close()
