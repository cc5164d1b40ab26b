"""What a command with `--json` prints when it ends by an error: an object, so that programs need not read texts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from blizzard.errors import BlizzardError


@contextmanager
def errors_as_json(*, as_json: bool) -> Iterator[None]:
    """The error is raised afterwards, so standard error has its text, too, and the exit code stays."""
    try:
        yield
    except BlizzardError as error:
        if as_json:
            print_error(str(error))
        raise


def print_error(text: str) -> None:
    typer.echo(json.dumps({"error": text}, indent=2))
