"""The `blizzard` command. Each subcommand is a module of the same name with a function `command`.

Only the called subcommand is imported, so that `blizzard --help` is fast.

Exit codes: 0 success, 1 failure, 2 wrong input or configuration, 130 interrupted.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import typer

from blizzard.errors import BlizzardError, ConfigError
from blizzard.log import one_line

COMMANDS: Mapping[str, str] = {
    "run": "Sweep and ingest on this machine.",
    "status": "Show each source's watermark, backlog and last commit.",
    "resume": "Let the dispatcher start runs again after failures.",
    "validate": "Report every problem in a configuration.",
    "setup": "Get the jars that Spark needs.",
    "schema": "Print the JSON Schema of the configuration, for editors.",
}
"""Every command with its line in `blizzard --help`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. `arguments`: those of the process by default."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    called = next((argument for argument in given if not argument.startswith("-")), None)
    try:
        app(called)(given, prog_name="blizzard")
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except ConfigError as error:
        return _print_error(error, 2)
    except BlizzardError as error:
        return _print_error(error, 1)
    return 0


def app(called: str | None) -> typer.Typer:
    """All commands by name. Only `called` has its function and options."""
    built = typer.Typer(
        help="Files that land in S3, their rows in a Delta table, each exactly once.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_root_callback)
    for name, summary in COMMANDS.items():
        if name == called:
            built.command(name)(_function(name))
        else:
            built.command(name, help=summary)(_not_called)
    return built


def _function(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = import_module(f"{__name__}.{name}").command
    return function


def _root_callback() -> None:
    """Without a callback, typer would drop the command's name from an app with a single command."""


def _not_called() -> None:
    """The function of every command that was not called: it only appears in the list of commands."""


def _print_error(error: BlizzardError, code: int) -> int:
    lines = map(one_line, str(error).split("\n"))
    typer.echo("blizzard: " + "\n".join(lines), err=True)
    return code
