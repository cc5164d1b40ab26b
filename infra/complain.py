"""How a command says that it did not do its work."""

import sys

from blizzard.errors import BlizzardError, ConfigError


def complain(command: str, error: BlizzardError) -> int:
    """Print each problem as a line behind the command's name. The exit status: 2 for wrong input, else 1."""
    if isinstance(error, ConfigError):
        for problem in error.problems:
            print(f"{command}: {problem}", file=sys.stderr)
        return 2
    print(f"{command}: {error}", file=sys.stderr)
    return 1
