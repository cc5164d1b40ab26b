"""`blizzard run`: sweep and ingest on this machine, with no AWS in between."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from blizzard.config.load import load_config
from blizzard.environment import variables
from blizzard.errors import ConfigError

JARS = Path(__file__).resolve().parents[2] / "jars"
EXIT_WELL, EXIT_STOPPED = 0, 130
LAST_LINES = 15


def command(
    file: Annotated[str, typer.Argument(help="The configuration, such as pipelines.yaml.", metavar="FILE")],
    *,
    once: Annotated[bool, typer.Option("--once", help="Drain what is there, then end.")] = False,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be given more than once.")] = None,
    jars: Annotated[Path, typer.Option(help="Folder of Delta's jars, as `make setup` fills it.")] = JARS,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the job's events as JSON lines, for programs.")
    ] = False,
) -> None:
    """Sweep the sources and ingest what is found, until stopped or, with --once, until nothing is left.

    Exit code 0: all went well. 1: a source failed, and the last lines say why. 2: the configuration is wrong.
    """
    load_config(file, variables())
    if not jars.is_dir():
        raise ConfigError([f"--jars: expected a folder with Delta's jars, found no {jars}; run `make setup`"])
    words = [sys.executable, "-m", "spark_job.main", "--config", file, "--sweep", "--jars", str(jars)]
    words += ["--once"] if once else []
    words += [word for name in pipeline or () for word in ("--pipeline", name)]
    raise typer.Exit(_run(words, as_json=as_json))


def _run(words: list[str], *, as_json: bool) -> int:
    """The job in a process of its own; what it says is shown here as it comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the job hears it too, and ends after the step in hand
    with (
        tempfile.TemporaryFile("w+", errors="replace") as said,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=None if as_json else said, text=True) as process,
    ):
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        assert process.stdout is not None
        explained = _pass_on(process.stdout) if as_json else _show(process.stdout)
        code = process.wait()
        if code not in (EXIT_WELL, EXIT_STOPPED) and not explained:
            _show_the_end(said)
    return code if code >= EXIT_WELL else 1


def _show_the_end(said: IO[str]) -> None:
    """The last of what the job and Spark printed beside their events: a Java that is missing, a traceback."""
    said.seek(0)
    lines = [line for line in said if "WARN" not in line and "log4j" not in line]
    if lines:
        typer.echo("what the job said last:", err=True)
    for line in lines[-LAST_LINES:]:
        typer.echo(f"  {line.rstrip()}", err=True)


def _pass_on(lines: Iterable[str]) -> bool:
    for line in lines:
        sys.stdout.write(line)
        sys.stdout.flush()
    return True


def _show(lines: Iterable[str]) -> bool:
    """Progress on a terminal, plain lines elsewhere. Whether an event said what went wrong, if anything did."""
    from blizzard.cli.progress import Progress

    with Progress() as progress:
        for line in lines:
            event = _event(line)
            if event is not None:
                progress.show(event)
        return progress.complained


def _event(line: str) -> dict[str, Any] | None:
    """None for what Spark itself prints."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
