"""Spark's daemon of Python workers, for workers that fall into a trap: `spark.python.daemon.module` names it."""

import os
from pathlib import Path

from pyspark import daemon

from tests.proof.kill.jvm import TRAP
from tests.proof.kill.trap import install

if __name__ == "__main__":
    if TRAP in os.environ:
        install(Path(os.environ[TRAP]))
    daemon.manager()
