"""What a command with `--json` prints when it ends by an error: an object, so that programs need not read texts. The
text is on standard error, too, and the exit code is the same."""

import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import typer

UsageError: Any = typer.BadParameter.__bases__[0]
"""Click's, of which Typer has a copy of its own in newer versions."""


def wants_json(arguments: Sequence[str]) -> bool:
    return "--json" in takewhile(lambda each: each != "--", arguments)


def usage_error(stop: SystemExit) -> str | None:
    """What Typer has said to standard error before it ended the command; None: the command ended by itself."""
    error = stop.__context__
    return str(error.format_message()) if isinstance(error, UsageError) else None


def print_error(text: str) -> None:
    """In one line, as what `blizzard run --json` prints are lines."""
    typer.echo(json.dumps({"error": text}))
