"""`blizzard replace`: the rows of some files out of the table, and the files read anew."""

from collections.abc import Sequence
from typing import Annotated

import typer

from blizzard.cli.options import AsJson, File, Jars, Pipelines, Sources
from blizzard.cli.repair import DryRun, EngineOption, carry_out
from blizzard.cli.selection import patterns_of, prefix_of_folder, refuse_options_of_files, selected
from blizzard.config.engine_name import EngineName
from blizzard.config.load import load_config
from blizzard.config.model import Pipeline, Source
from blizzard.environment import variables
from blizzard.errors import ConfigError
from blizzard.storage.s3_connection import S3Settings


def command(
    file: File,
    *,
    pipeline: Pipelines = None,
    source: Sources = None,
    path: Annotated[
        list[str] | None, typer.Option(help="The files that match this pattern; may be given more than once.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option(help="The files in this folder of the source, and below it.", metavar="FOLDER")
    ] = None,
    dry_run: DryRun = False,
    engine: EngineOption = None,
    jars: Jars = None,
    as_json: AsJson = False,
) -> None:
    """Take the rows of files out of the table and read the files anew, as configured today, in one commit for each
    source; so are partitions of topics. If one of them cannot be read, nothing changes. Files that the source no longer
    has keep their rows.

    Exit code 0: all were replaced. 1: nothing was, or some could not be read or replaced. 2: the input is wrong.
    """
    environ = variables()
    chosen = selected(load_config(file, environ), pipeline, source)
    refuse_options_of_files(chosen, {"--partition": partition is not None})
    paths = patterns_of(path, "--path", chosen, S3Settings.from_environment(environ))
    if not path and partition is None:
        raise ConfigError(["expected --path or --partition: which files are to be replaced?"])
    request = {
        "config": file,
        "replace": True,
        "paths": paths,
        "prefix": prefix_of_folder(partition),
        "dry_run": dry_run,
    }
    _refuse_local(chosen, engine, dry_run=dry_run)
    raise typer.Exit(carry_out(request, chosen, engine=engine, jars=jars, as_json=as_json))


def _refuse_local(chosen: Sequence[tuple[Pipeline, Source]], engine: EngineName | None, *, dry_run: bool) -> None:
    """A dry run needs no engine, so that of the configuration does not matter."""
    why = "only Spark takes rows out of a table, and nothing was read"
    if engine is not None and not engine.has_spark:
        raise ConfigError([f"--engine local: expected auto or spark: {why}"])
    local = {pipeline.name for pipeline, _ in chosen if not EngineName(pipeline.engine).has_spark}
    if local and engine is None and not dry_run:
        names = ", ".join(sorted(local))
        raise ConfigError([f"pipeline {names} has `engine: local`: expected --engine auto or spark with it: {why}"])
