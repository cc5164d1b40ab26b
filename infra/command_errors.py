"""Prints the errors of a command."""

import sys

from blizzard.errors import BlizzardError, ConfigError


def print_error(command: str, error: BlizzardError) -> int:
    """Print one line per problem to stderr. Returns the exit status: 2 for ConfigError, else 1."""
    if isinstance(error, ConfigError):
        for problem in error.problems:
            print(f"{command}: {problem}", file=sys.stderr)
        return 2
    print(f"{command}: {error}", file=sys.stderr)
    return 1
