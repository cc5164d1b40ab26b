"""`blizzard init`: looks at a bucket or folder, and writes a configuration for it."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from blizzard.config import uri as uris
from blizzard.config.load import parse_config
from blizzard.environment import variables
from blizzard.errors import BlizzardError, ConfigError
from blizzard.infer.budget import MORE_BYTES, Budget
from blizzard.infer.config_text import config_text
from blizzard.infer.findings import Findings
from blizzard.infer.listing import MAX_REQUESTS
from blizzard.log import one_line

STDOUT = "-"


def command(
    uri: Annotated[str, typer.Argument(help="Where files land: s3://bucket/prefix/ or a folder.", metavar="URI")],
    *,
    table_uri: Annotated[str, typer.Option(help="The Delta table that they go into.", metavar="TABLE")],
    out: Annotated[
        str, typer.Option(help="The configuration to write; it must not exist. -: standard output.", metavar="FILE")
    ] = "pipelines.yaml",
    sample_files: Annotated[int, typer.Option(help="How many files to look into.", min=1)] = 60,
    sample_bytes: Annotated[
        int, typer.Option(help="How many bytes of them to read, decompressed, all together.", min=1)
    ] = 4 << 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON, for programs.")] = False,
) -> None:
    """Look at the files of a bucket or folder, and write a configuration that ingests them.

    Exit code 0: it is written. 2: the files do not tell how to read them, cannot be read, or FILE exists.
    """
    file = None if out == STDOUT else Path(out)
    places = _uris(uri, table_uri)
    if file is not None and file.exists():
        raise ConfigError([f"--out {out}: the file exists; move it away, or name another file"])
    budget = Budget(sample_files, sample_bytes)
    typer.echo(
        f"looking at {uri}: at most {MAX_REQUESTS} LIST requests, and {budget.most_files} files, of which at most "
        f"{budget.most_bytes:,} bytes are read, {MORE_BYTES:,} more where no record ends in them, and zips as a whole",
        err=True,
    )
    found = Findings.of_json(_look(*places, sample_files, sample_bytes))
    text = config_text(found)
    parse_config(text, {}, name=out, folder=str(Path.cwd()))
    if file is not None:
        _write(file, text)
    if as_json:
        typer.echo(json.dumps({**found.as_json(), "out": None if file is None else out, "config": text}, indent=2))
    else:
        _show(found, file, text)


def _show(found: Findings, file: Path | None, text: str) -> None:
    """`file`: where `text` is; None: it goes to standard output, and what was found to standard error."""
    from blizzard.cli.findings_view import show

    show(found, to_stderr=file is None)
    if file is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"written to {file}. Read its comments, then try:")
        against = " --against-table" if found.known_tables else ""
        typer.echo(f"  blizzard validate {file}{against}\n  blizzard run --once {file}")


def _uris(uri: str, table: str) -> tuple[str, str]:
    """As the configuration has them."""
    problems = list[str]()
    found = []
    for name, text, normalize in (("URI", uri, uris.source_uri), ("--table-uri", table, uris.table_uri)):
        try:
            found.append(normalize(text, str(Path.cwd())))
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise ConfigError(problems)
    return found[0], found[1]


def _look(uri: str, table: str, sample_files: int, sample_bytes: int) -> Any:
    """What the process that looks has found. Raises ConfigError if the files tell nothing."""
    request = {"uri": uri, "table_uri": table, "sample_files": sample_files, "sample_bytes": sample_bytes}
    command_line = [sys.executable, "-m", "spark_job.infer", json.dumps(request)]
    last: dict[str, Any] = {}
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        subprocess.Popen(command_line, env=variables(), stdout=subprocess.PIPE, stderr=output, text=True) as process,
    ):
        assert process.stdout is not None
        for told in _shown(json.loads(line) for line in process.stdout if line.startswith("{")):
            last = told
        process.wait()
        output.seek(0)
        errors = output.read().strip()
    if "found" in last:
        return last["found"]
    if "cannot_tell" in last:
        raise ConfigError([one_line(str(last["cannot_tell"]))])
    raise BlizzardError(f"looking at {uri} failed: {errors[-2000:] or f'exit code {process.returncode}'}")


def _shown(lines: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What the process tells, with the current step on a terminal."""
    if not sys.stderr.isatty():
        yield from lines
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status("listing") as status:
        for told in lines:
            if "reading" in told:
                status.update(one_line(f"reading {told['reading']} of {told['files']:,} files *{told['suffix']}"))
            yield told


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError([f"--out {file}: cannot be written: {error.strerror or error}; name another file"]) from error
