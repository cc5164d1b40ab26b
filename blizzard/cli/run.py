"""`blizzard run`: sweep and ingest on this machine, without AWS."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from blizzard.cli.options import File
from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.config.load import load_config
from blizzard.config.spark_master import spark_options
from blizzard.config.spark_settings import HEAP
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.setup.jar_folder import problem_of
from blizzard.setup.places import SETUP_COMMAND, find_jars

EXIT_SUCCESS, EXIT_INTERRUPTED = 0, 130
LAST_LINES = 15
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def command(
    file: File,
    *,
    once: Annotated[bool, typer.Option("--once", help="Ingest the backlog, then end.")] = False,
    pipeline: Annotated[list[str] | None, typer.Option(help="Only this pipeline; may be given more than once.")] = None,
    engine: Annotated[
        EngineName | None,
        typer.Option(help="What ingests: local (no Java), spark, or auto. Default: `engine` of each pipeline."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Where Spark runs: local[N], or a cluster, such as spark://HOST:PORT.", metavar="URL"),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(help="One more setting for Spark; may be given more than once.", metavar="KEY=VALUE"),
    ] = None,
    jars: Annotated[
        Path | None,
        typer.Option(help=f"Folder of Delta's jars for Spark. Default: where `{SETUP_COMMAND}` puts them."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the job's events as JSON lines, for programs.")
    ] = False,
) -> None:
    """Sweep the sources and ingest the files found, until stopped or, with --once, until the backlog is empty.

    Exit code 0: success. 1: a source failed; the last lines say why. 2: the configuration is wrong.
    """
    config = load_config(file, environ := variables())
    on_spark = spark_options(environ, master=master, conf=spark_conf or ())
    chosen = [found for name, found in config.pipelines.items() if not pipeline or name in pipeline]
    asked = on_spark.engine(CONFIGURED if engine is None else engine)
    wanted = {found.engine for found in chosen} if asked == CONFIGURED else {asked}
    folder = _jars(jars or find_jars(environ), needed=EngineName.SPARK in wanted)
    command_line = [sys.executable, "-m", "spark_job", "--config", file, "--sweep", "--jars", str(folder)]
    command_line += ["--engine", asked, *(["--once"] if once else [])]
    command_line += [*_repeated("--pipeline", pipeline), *_repeated("--master", [master] if master else [])]
    command_line += _repeated("--spark-conf", spark_conf)
    raise typer.Exit(_run(command_line, as_json=as_json))


def _jars(folder: Path, *, needed: bool) -> Path:
    if needed and (problem := problem_of(folder)):
        raise ConfigError([f"--jars: expected a folder with Delta's jars, found {problem}; run `{SETUP_COMMAND}`"])
    return folder


def _repeated(option: str, values: list[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def _run(command_line: list[str], *, as_json: bool) -> int:
    """Run the job in a child process and show its events as they come. Returns the exit code."""
    # The job gets Ctrl-C, too, and ends after its current step. It starts with both blocked, so that one that comes
    # early waits until the job can end cleanly.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        subprocess.Popen(
            command_line,
            env={**HEAP, **variables()},
            stdout=subprocess.PIPE,
            stderr=None if as_json else output,
            text=True,
        ) as process,
    ):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        assert process.stdout is not None
        error_shown = _pass_on(process.stdout) if as_json else _show(process.stdout)
        code = process.wait()
        if code not in (EXIT_SUCCESS, EXIT_INTERRUPTED) and not error_shown:
            _show_last_lines(output)
    if code < EXIT_SUCCESS:
        typer.echo(_killed(-code), err=True)
    return code if code >= EXIT_SUCCESS else 1


def _killed(number: int) -> str:
    """What ended the job, which could not say it itself."""
    known = number in {*signal.Signals}
    name = signal.Signals(number).name if known else f"signal {number}"
    text = f"the job was ended by {name}; what was committed stays, and the next run continues"
    if number == signal.SIGKILL:
        text += ". If nobody sent it, the machine is out of memory: lower `limits.task_memory_bytes`"
    return f"{text}."


def _show_last_lines(output: IO[str]) -> None:
    """The end of the output of job and Spark without the events, such as a traceback or an error about Java."""
    output.seek(0)
    lines = [line for line in output if "WARN" not in line and "log4j" not in line]
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
    """Returns whether one of the events was an error."""
    from blizzard.cli.progress import Progress

    with Progress() as progress:
        for line in lines:
            event = _event(line)
            if event is not None:
                progress.show(event)
        return progress.error_shown


def _event(line: str) -> dict[str, Any] | None:
    """None for lines that Spark itself prints."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
