"""The `blizzard` command. Each subcommand is a module of the same name with a function `command`.

Only the called subcommand is imported, so that `blizzard --help`, `blizzard --version` and completion are fast.

Exit codes: 0 success, 1 failure, 2 wrong input or configuration, 130 interrupted.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from blizzard.cli.json_errors import print_error, usage_error, wants_json
from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import one_line

COMMANDS: Mapping[str, str] = {
    "init": "Look at a bucket or folder, and write its configuration.",
    "run": "Sweep and ingest on this machine.",
    "audit": "Account for every object of the sources, and every row.",
    "files": "Show the life of files, or why they are not in.",
    "rebuild": "Make a state anew from its table, or a table from its files.",
    "letters": "Show what was not ingested, and why.",
    "replay": "Put what was refused into the table after all.",
    "replace": "Take files out of the table, and read them anew.",
    "plan": "Show what the next runs would read, commit and cost.",
    "status": "Show each source's watermark, backlog and last commit.",
    "doctor": "Find what is wrong, and say what to do.",
    "resume": "Let the dispatcher start runs again after failures.",
    "validate": "Report every problem in a configuration.",
    "setup": "Get the jars that Spark needs.",
    "schema-history": "Show how the columns of each table have changed.",
    "schema": "Print the JSON Schema of the configuration, for editors.",
}
"""Every command with its line in `blizzard --help`."""


class LazyCommands(TyperGroup):
    """Lists all commands, and imports one when it is called or completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and load(listed.name or ""), rest

    def invoke(self, ctx: Any) -> Any:
        """Without what pydantic, by which Typer reads options, puts before its errors."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. `arguments`: those of the process by default."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app()(given, prog_name="blizzard")
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        if (text := usage_error(stop)) is not None and wants_json(given):
            print_error(text)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BlizzardError as error:
        if wants_json(given):
            print_error(str(error))
        _show_error(error)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def app() -> typer.Typer:
    """All commands by name, without their functions and options."""
    built = typer.Typer(
        cls=LazyCommands,
        help="Files that land in S3, their rows in a Delta table, each exactly once.",
        no_args_is_help=True,
        invoke_without_command=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_root)
    for name, summary in COMMANDS.items():
        built.command(name, help=summary)(_listed)
    return built


def load(name: str) -> Any:
    """A command with its function and options."""
    alone = typer.Typer(add_completion=False)
    alone.command(name)(import_module(f"{__name__}.{name.replace('-', '_')}").command)
    return typer.main.get_command(alone)


def _root(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Show all versions, Java and the jars.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --version: print JSON, for programs.")] = False,
) -> None:
    if version:
        import_module(f"{__name__}.versions").show(as_json=as_json)
        raise typer.Exit
    if as_json:
        raise ConfigError(
            ["--json: expected --version with it, or a command before it, such as `blizzard status --json`"]
        )
    if context.invoked_subcommand is None:
        raise ConfigError(["expected a command; `blizzard --help` lists them"])


def _listed() -> None:
    """The function of every command in the list; `load` has the real one."""


def _show_error(error: BlizzardError) -> None:
    lines = map(one_line, str(error).split("\n"))
    typer.echo("blizzard: " + "\n".join(lines), err=True)
