"""`blizzard replay`: what was refused is put into the table after all."""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any

import typer

from blizzard.cli.options import AsJson, File, Jars, Paths, Pipelines, Reason, Since, Sources, Stages, Until
from blizzard.cli.repair import DryRun, EngineOption, carry_out
from blizzard.cli.selection import patterns_of, refuse_empty, selected
from blizzard.cli.times import point_in_time
from blizzard.config.load import load_config
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.storage.s3_connection import S3Settings

Records = Annotated[
    Path | None,
    typer.Option(
        "--records",
        help="Repaired records, a JSON object in each line with path, row and record, to take the place of refused "
        "ones.",
        metavar="FILE",
    ),
]
TWO_WISHES = "--records names the records itself: leave out --stage, --reason, --path, --since, --until"


def command(
    file: File,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    stage: Stages = None,
    reason: Reason = None,
    path: Paths = None,
    since: Since = None,
    until: Until = None,
    records: Records = None,
    dry_run: DryRun = False,
    engine: EngineOption = None,
    jars: Jars = None,
    as_json: AsJson = False,
) -> None:
    """Read what the dead letters are about once more, as configured today, and put it into the table, exactly once:
    files, their records, and messages of topics. The letters of what is in then are settled.

    Exit code 0: all of it is in the table. 1: some was refused again, or cannot be tried or read. 2: wrong input.
    """
    environ = variables()
    refuse_empty({"--reason": reason})
    chosen = selected(load_config(file, environ), pipeline, source)
    paths = patterns_of(path, "--path", chosen, S3Settings.from_environment(environ))
    if records is not None and (stage or reason or path or since is not None or until is not None):
        raise ConfigError([TWO_WISHES])
    request: dict[str, Any] = {
        "config": file,
        "stages": [str(each) for each in stage or ()],
        "reason": reason,
        "paths": paths,
        "dry_run": dry_run,
    }
    request |= _times({"since": since, "until": until})
    with _for_the_process(records) as place:
        request |= {"records": place, "records_name": str(records)}
        code = carry_out(request, chosen, engine=engine, jars=jars, as_json=as_json)
    raise typer.Exit(code)


def _times(given: Mapping[str, str | None]) -> dict[str, float]:
    """Raises ConfigError."""
    now_ts = time.time()
    return {f"{name}_ts": point_in_time(text, f"--{name}", now_ts) for name, text in given.items() if text is not None}


@contextmanager
def _for_the_process(records: Path | None) -> Iterator[str | None]:
    """A path from which the process of the job can read the records. What only this process has open, such as the
    shell's `<(…)`, is copied for it. Raises ConfigError."""
    if records is None:
        yield None
        return
    real = records.resolve()
    if real.is_file() or not records.exists():
        yield str(real)
        return
    with NamedTemporaryFile(prefix="blizzard-records-") as copy:
        try:
            with records.open("rb") as given:
                shutil.copyfileobj(given, copy)
            copy.flush()
        except OSError as error:
            raise ConfigError([f"--records {records}: cannot be read: {error}"]) from error
        yield copy.name
