"""The real job, run as often as it is asked to, in one process: a JVM's start costs more than the run.

Each line on standard input is the job's arguments as JSON; after each run a line says how it ended.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace

from blizzard.storage.s3_connection import S3Settings
from spark_job import main as job


def impatient() -> None:
    """S3 clients as they ship, with pauses that suit a proxy on this machine."""
    shipped = S3Settings.from_environment

    def from_environment(environ: Mapping[str, str]) -> S3Settings:
        return replace(shipped(environ), first_backoff_secs=0.01, read_timeout_secs=1.0)

    S3Settings.from_environment = from_environment  # type: ignore[method-assign,assignment]


def main() -> None:
    impatient()
    for line in sys.stdin:
        try:
            code = job.main(json.loads(line))
        except Exception as error:  # noqa: BLE001 - so would the process end
            print(json.dumps({"event": "died", "error": repr(error)[:2000]}), flush=True)
            code = 1
        print(json.dumps({"event": "exit", "code": code}), flush=True)


if __name__ == "__main__":
    main()
