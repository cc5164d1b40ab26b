"""What `blizzard replay` and `blizzard replace` have in common: a process of the job does it, and answers."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from blizzard.cli.job_process import JobProcess, event_of, jars_folder, json_of
from blizzard.cli.json_errors import print_error
from blizzard.cli.progress import Progress
from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.log import one_line

EngineOption = Annotated[
    EngineName | None,
    typer.Option("--engine", help="What writes the rows: local (no Java), spark, or auto. Default: as configured."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")]
SHOWN = 20
"""Files of each kind of result that are named."""
_FATES = {
    "done": "are in the table now",
    "in_already": "were in the table already",
    "superseded": "have other content in the table now",
    "refused": "were refused again",
    "held": "were not tried",
}


def carry_out(
    request: Mapping[str, Any],
    sources: Sequence[tuple[Pipeline, Source]],
    *,
    engine: EngineName | None,
    jars: Path | None,
    as_json: bool,
) -> int:
    """Returns the exit code. `request`: as `spark_job.repair.main.Request`, without sources and engine."""
    asked = CONFIGURED if engine is None else engine
    wanted = {pipeline.engine for pipeline, _ in sources} if asked == CONFIGURED else {asked}
    needs_spark = any(EngineName(each).needs_spark for each in wanted)
    folder = jars_folder(jars, variables(), needed=needs_spark and not request["dry_run"])
    whole = {**request, "sources": [source.id for _, source in sources], "engine": asked, "jars": str(folder)}
    with JobProcess([sys.executable, "-m", "spark_job.repair", json.dumps(whole)], capture=True) as job:
        errors, answer = _followed(job, as_json=as_json)
        code = job.end(error_shown=bool(errors) or answer is not None)
    if answer is None:
        if as_json:
            print_error("\n".join(errors) or f"the job ended with exit code {code}; standard error says more")
        return code
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        for source in answer:
            _print(source)
    return code


def _followed(job: JobProcess, *, as_json: bool) -> tuple[list[str], list[dict[str, Any]] | None]:
    """Shows its events. Returns the errors among them, and the answer."""
    answer = None
    with Progress(to_stderr=as_json) as progress:
        for line in job.lines:
            found = json_of(line)
            if found is not None and "answer" in found:
                answer = found["answer"]
            elif (event := event_of(line)) is not None:
                progress.show(event)
        return progress.errors, answer


def _print(answer: Mapping[str, Any]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(answer["source"], style="bold", markup=False)
    for line in _lines(answer):
        console.print(one_line(line), markup=False)


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    things = "partitions" if answer["source_kind"] == "topics" else "files"
    if answer["dry_run"]:
        yield f" {len(answer['planned']):,} {things} would be read; nothing was written"
        yield from _named(answer["planned"])
    elif not answer["files"] and not answer["left"]:
        yield " nothing to do: no open letter is meant"
    for fate, text in _FATES.items():
        files = [file for file in answer["files"] if file["fate"] == fate]
        if files:
            rows = sum(file["rows"] for file in files)
            yield f" {len(files):,} {things} {text}" + (f": {rows:,} rows" if rows else "")
            yield from _named(files)
    yield from _come_back(answer)
    if answer["left"]:
        yield f" {len(answer['left']):,} {things} are left: the same command goes on with them"
    for text in answer["unreadable"]:
        yield f" cannot be read: {text}"
    if answer["error"]:
        yield f" failed: {answer['error']}"


def _come_back(answer: Mapping[str, Any]) -> Iterator[str]:
    """Rows that the table no longer has, of files that are replaced."""
    files = {file["path"] for file in (*answer["planned"], *answer["files"]) if file["kind"] == "replace"}
    files -= {file["path"] for file in answer["files"] if file["fate"] != "done"}
    come = "would come back" if answer["dry_run"] else "came back"
    if files and answer["deleted"] is None:
        yield (
            f" whether rows {come} that somebody had deleted is not known, as these are too many data files, or such "
            "as deltalake cannot read: `blizzard audit` names them before (rows_deleted)"
        )
    deleted = [each for each in answer["deleted"] or () if each["path"] in files]
    if deleted:
        rows = sum(each["rows"] for each in deleted)
        yield (
            f" {rows:,} rows of {len(deleted):,} files that were committed were no longer in the table, so somebody "
            "had deleted them, or data files of the table are lost (`blizzard audit` names them): as far as the files "
            f"have them, they {come}"
        )
        yield from (f"   {each['path']}: {each['rows']:,} rows" for each in deleted[:SHOWN])
        if len(deleted) > SHOWN:
            yield f"   … and {len(deleted) - SHOWN:,} more; --json has all"


def _named(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for file in files[:SHOWN]:
        records = "" if file["records"] is None else f", {file['records']:,} of its records"
        version = f", in version {file['table_version']}" if file.get("table_version") is not None else ""
        reason = f": {file['reason']}" if file.get("reason") else ""
        yield f"   {file['path']}{records}{version}{reason}"
        for refused in file.get("refused", ())[:SHOWN]:
            yield f"     record {refused['row']}: {refused['reason']}"
    if len(files) > SHOWN:
        yield f"   … and {len(files) - SHOWN:,} more; --json has all"
