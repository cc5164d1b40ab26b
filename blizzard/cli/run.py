"""`blizzard run`: sweep and ingest on this machine, without AWS."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from blizzard.cli.job_process import JobProcess, check_spark, event_of, repeated
from blizzard.cli.options import File, Jars
from blizzard.config.engine_name import CONFIGURED, EngineName
from blizzard.config.spark_master import spark_options
from blizzard.environment import variables
from blizzard.setup.places import find_jars


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
    jars: Jars = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the job's events as JSON lines, for programs.")
    ] = False,
) -> None:
    """Sweep the sources and ingest the files found, until stopped or, with --once, until the backlog is empty.

    Exit code 0: success. 1: a source failed; the last lines say why. 2: the configuration is wrong.
    """
    on_spark = spark_options(environ := variables(), master=master, conf=spark_conf or ())
    asked = on_spark.engine(CONFIGURED if engine is None else engine)
    folder = jars or find_jars(environ)
    command_line = [sys.executable, "-m", "spark_job", "--config", file, "--sweep", "--jars", str(folder)]
    command_line += ["--engine", asked, *(["--once"] if once else [])]
    command_line += [*repeated("--pipeline", pipeline), *repeated("--master", [master] if master else [])]
    command_line += repeated("--spark-conf", spark_conf)
    check = partial(_check, file, environ, pipeline or (), asked, folder)
    raise typer.Exit(_run(command_line, check, as_json=as_json))


def _check(file: str, environ: Mapping[str, str], pipelines: Collection[str], engine: str, jars: Path) -> None:
    """Raises ConfigError."""
    from blizzard.config.load import load_config

    chosen = [found for name, found in load_config(file, environ).pipelines.items() if name in (pipelines or (name,))]
    wanted = {found.engine for found in chosen} if engine == CONFIGURED else {engine}
    check_spark(jars, needed=any(EngineName(each).needs_spark for each in wanted))


def _run(command_line: list[str], check: Callable[[], None] = lambda: None, *, as_json: bool) -> int:
    """Run the job in a child process and show its events as they come. Returns the exit code. While the child loads its
    packages, `check` looks at the configuration that both read; what it raises ends the child."""
    with JobProcess(command_line, capture=not as_json) as job:
        try:
            check()
        except BaseException:
            job.abandon()
            raise
        error_shown = _pass_on(job.lines) if as_json else _show(job.lines)
        return job.end(error_shown=error_shown)


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
            event = event_of(line)
            if event is not None:
                progress.show(event)
        return progress.error_shown
