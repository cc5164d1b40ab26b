"""`blizzard rebuild`: the state of sources from their table, or a new table from the sources."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from blizzard.cli.options import AsJson, File, Pipelines, Sources
from blizzard.cli.rebuild_process import EXIT_CONFIG, EXIT_OK, Question, Rebuild, Told
from blizzard.cli.rebuild_text import plan_lines, result_lines
from blizzard.cli.selection import selected, selected_of_files
from blizzard.config import uri as uris
from blizzard.config.change import CannotChange, replace_file, with_table_uri
from blizzard.config.checks import TABLE_IN_TABLE, check
from blizzard.config.load import load_config
from blizzard.config.model import Config, Pipeline
from blizzard.config.problems import Problems
from blizzard.environment import variables
from blizzard.errors import ConfigError

EXIT_BAD = 1
NEXT = (
    "the new table is filled, and the old one goes on as before: look at the new one, then start the same command with "
    "--swap, which compares the two and asks before the new one takes the place of the old one"
)

To = Annotated[str | None, typer.Option(help="Fill this new table from the sources, instead.", metavar="TABLE")]
Swap = Annotated[bool, typer.Option("--swap", help="With --to: then let the new table take the place of the old one.")]
WithoutGone = Annotated[
    bool, typer.Option("--without-gone", help="With --swap: even without rows that the sources do not give any more.")
]
WithoutOthers = Annotated[
    bool, typer.Option("--without-others", help="With --swap: even without rows that none of the sources has brought.")
]
WithDeleted = Annotated[
    bool, typer.Option("--with-deleted", help="With --swap: even if rows come back that somebody has deleted.")
]

WithChanged = Annotated[
    bool, typer.Option("--with-changed", help="With --swap: even if values that somebody has changed are lost.")
]


def command(
    file: File,
    *,
    to: To = None,
    swap: Swap = False,
    without_gone: WithoutGone = False,
    without_others: WithoutOthers = False,
    with_deleted: WithDeleted = False,
    with_changed: WithChanged = False,
    pipeline: Pipelines = None,
    source: Sources = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, for scripts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find out from the table what is in it, and write the state anew; or rebuild a whole table from files.

    Exit code 0: all is well now. 1: something is not; the output says what. 2: the input is wrong, or nobody agreed.
    """
    environ = variables()
    config = load_config(file, environ)
    accepted = {"without_gone": without_gone, "without_others": without_others}
    accepted |= {"with_deleted": with_deleted, "with_changed": with_changed}
    if to is None:
        _refuse_without_to({"swap": swap, **accepted})
        ids = [each.id for _, each in selected(config, pipeline, source)]
        told = Rebuild(file, ids, Question(yes, plan_lines), as_json=as_json).run()
        document: dict[str, Any] = {"file": file, "sources": told.states()}
    else:
        old = _only_pipeline(config, pipeline, source)
        table_uri = _target(config, old, to, swap=swap, accepted=accepted)
        ids = [each.id for each in old.sources.values()]
        rebuild = Rebuild(file, ids, Question(yes, plan_lines), as_json=as_json)
        told = _whole_table(rebuild, old, table_uri, swap=swap, accepted=accepted)
        if told.swapped and not _change_config(Path(file), old.name, table_uri, told):
            told.code = EXIT_BAD
        document = {"file": file, "pipeline": old.name, "table_uri": old.table_uri, "to": table_uri}
        document |= {"sources": told.tables(), "others": told.others}
        document |= {"swapped": told.swapped, "config_changed": told.config_changed}
    raise typer.Exit(_answer(told, document, as_json=as_json))


def _whole_table(rebuild: Rebuild, old: Pipeline, table_uri: str, *, swap: bool, accepted: Mapping[str, bool]) -> Told:
    if table_uri != old.table_uri:
        told = rebuild.run(to=table_uri, swap=swap, accepted=accepted)
        if told.code == EXIT_OK and not swap:
            told.notes.append(NEXT)
        return told
    told = Told(EXIT_OK)
    told.notes.append(f"pipeline {old.name} writes to {table_uri} already: there is nothing to do")
    return told


def _refuse_without_to(given: Mapping[str, bool]) -> None:
    if problems := [f"{_option(name)}: expected --to TABLE with it" for name, is_given in given.items() if is_given]:
        raise ConfigError(problems)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _only_pipeline(config: Config, pipelines: list[str] | None, sources: list[str] | None) -> Pipeline:
    if sources:
        raise ConfigError(["--source: a new table gets all sources of its pipeline; leave the option out"])
    names = {pipeline.name: pipeline for pipeline, _ in selected_of_files(config, pipelines, None)}
    if len(names) != 1:
        raise ConfigError([f"--to: expected one --pipeline with it, of {', '.join(names)}: a table has one pipeline"])
    return next(iter(names.values()))


def _target(config: Config, old: Pipeline, to: str, *, swap: bool, accepted: Mapping[str, bool]) -> str:
    if not swap and any(accepted.values()):
        raise ConfigError([f"{_option(name)}: expected --swap with it" for name in accepted if accepted[name]])
    try:
        table_uri = uris.table_uri(to, str(Path.cwd()))
    except ValueError as error:
        raise ConfigError([f"--to: {error}"]) from error
    _refuse_overlap(old.table_uri, table_uri)
    problems = Problems("--to", {})
    changed = old.model_copy(update={"table_uri": table_uri})
    check(config.model_copy(update={"pipelines": {**config.pipelines, old.name: changed}}), problems)
    if found := problems.sorted():
        raise ConfigError([str(problem) for problem in found])
    return table_uri


def _refuse_overlap(old_uri: str, new_uri: str) -> None:
    if new_uri.startswith(f"{old_uri}/"):
        where = f"which lies inside the old table ({old_uri})"
    elif old_uri.startswith(f"{new_uri}/"):
        where = f"inside which the old table lies ({old_uri})"
    else:
        return
    raise ConfigError([f"--to: found {new_uri}, {where}: {TABLE_IN_TABLE}; name another place"])


def _change_config(file: Path, pipeline: str, table_uri: str, told: Told) -> bool:
    try:
        replace_file(file, with_table_uri(file, variables(), pipeline, table_uri))
    except (CannotChange, ConfigError, OSError) as error:
        told.notes.append(
            f"{file} could not be changed ({error}). Change it by hand, or no job of pipeline {pipeline} runs: "
            f"table_uri: {json.dumps(table_uri)}"
        )
        return False
    told.config_changed = True
    told.notes.append(f"{file}: table_uri of pipeline {pipeline} is {table_uri} now; publish and deploy it, too")
    return True


def _answer(told: Told, document: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps({**document, "notes": told.notes, "error": told.error}, indent=2))
        return told.code
    for line in result_lines(told):
        typer.echo(line)
    if told.error is not None:
        typer.echo(f"blizzard: {told.error}", err=True)
    if told.declined and not sys.stdin.isatty():
        typer.echo("blizzard: nothing was written: say --yes to do this without a terminal", err=True)
    return EXIT_CONFIG if told.declined else told.code
