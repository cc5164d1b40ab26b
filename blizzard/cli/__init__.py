"""The `blizzard` command. Each command is a module here, of its own name, whose `command` function does the work.

Only the command that was called is imported, so `blizzard --help` stays fast whatever the others need.

Exit codes: 0 well, 1 the answer is bad, 2 input or configuration wrong, 130 interrupted.
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
    "status": "Show where each source stands.",
    "resume": "Let the dispatcher start runs again after failures.",
    "validate": "Say everything that is wrong with a configuration.",
    "schema": "Print the JSON Schema of the configuration, for editors.",
}
"""Every command with its line in `blizzard --help`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. Without `arguments`, what the process was called with."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    called = next((word for word in given if not word.startswith("-")), None)
    try:
        app(called)(given, prog_name="blizzard")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except ConfigError as error:
        return _complain(error, 2)
    except BlizzardError as error:
        return _complain(error, 1)
    return 0


def app(called: str | None) -> typer.Typer:
    """All commands by name, `called` with what it does and which options it takes."""
    built = typer.Typer(
        help="Files that land in S3, their rows in a Delta table, each exactly once.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    built.callback()(_group)
    for name, summary in COMMANDS.items():
        if name == called:
            built.command(name)(_function(name))
        else:
            built.command(name, help=summary)(_not_called)
    return built


def _function(name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = import_module(f"{__name__}.{name}").command
    return function


def _group() -> None:
    """A typer app without a callback loses its command's name when it has only one."""


def _not_called() -> None:
    """Stands for a command in the list of commands."""


def _complain(error: BlizzardError, code: int) -> int:
    lines = map(one_line, str(error).split("\n"))
    typer.echo("blizzard: " + "\n".join(lines), err=True)
    return code
