"""`blizzard resume`: let the dispatcher start runs again after failures."""

import secrets
import time
from typing import Annotated

import typer

from blizzard.cli.options import File
from blizzard.config.load import load_config
from blizzard.dispatch.decide import RESUMED, resumed_record
from blizzard.dispatch.run_records import Phase, RunLog, RunRecord
from blizzard.environment import variables
from blizzard.errors import AlreadyExists, ConfigError, StorageUnavailable
from blizzard.storage.open import open_store
from blizzard.storage.s3_connection import S3Settings

MAX_RACES = 10


def command(
    file: File,
    *,
    pipeline: Annotated[
        list[str] | None, typer.Option(help="Only this pipeline; may be given more than once.", metavar="NAME")
    ] = None,
) -> None:
    """Let the dispatcher start a pipeline's runs again after failures: closes the circuit and ends a backoff.

    Exit code 0: done, or there was nothing to do. 2: the input is wrong.
    """
    environ = variables()
    config = load_config(file, environ)
    settings = S3Settings.from_environment(environ)
    for name in _named(list(config.pipelines), pipeline):
        store = open_store(config.pipelines[name].table_uri, settings, may_be_missing=True)
        typer.echo(f"{name}: {_resume(RunLog(store, name, lambda: secrets.token_hex(8)))}")


def _named(known: list[str], wanted: list[str] | None) -> list[str]:
    unknown = [name for name in wanted or () if name not in known]
    if unknown:
        raise ConfigError([f"--pipeline {name}: expected one of {', '.join(known)}" for name in unknown])
    return [name for name in known if not wanted or name in wanted]


def _resume(runs: RunLog) -> str:
    for _ in range(MAX_RACES):
        latest = runs.latest()
        following = resumed_record(latest) if latest else None
        if latest is None or following is None:
            return _nothing_to_do(latest)
        try:
            runs.append(following, now_ts=time.time())
        except AlreadyExists:
            continue  # a dispatcher wrote a record first
        return f"resumed after {_failures(latest)}; the dispatcher starts the next run within its schedule"
    raise StorageUnavailable(f"another writer created the next run record first, {MAX_RACES} times in a row; try again")


def _nothing_to_do(latest: RunRecord | None) -> str:
    if latest is None:
        return "nothing to resume, the dispatcher has not started a run yet"
    if latest.phase in (Phase.STARTING, Phase.RUNNING):
        return f"nothing to resume, run {latest.run_id or '(starting)'} is active"
    return "resumed already" if latest.reason == RESUMED else "nothing to resume, the last run did not fail"


def _failures(latest: RunRecord) -> str:
    count = f"{latest.failures} failed run{'s' * (latest.failures != 1)}"
    circuit = "circuit open" if latest.phase is Phase.OPEN else "waiting"
    return f"{count} ({circuit}; the last: {latest.reason})"
