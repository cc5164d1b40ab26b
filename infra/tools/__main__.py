"""Runs a tool, and creates its environment first if needed: `python -m infra.tools sam validate --lint`."""

import subprocess
import sys
from pathlib import Path

from blizzard.errors import SetupError
from infra.tools.environments import NAMES, Tools

EXIT_FAILED = 2


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in NAMES:
        print(f"tools: expected one of {', '.join(NAMES)} and its arguments", file=sys.stderr)
        return EXIT_FAILED
    try:
        program = Tools(Path(__file__).parents[2]).program(arguments[0])
    except SetupError as error:
        print(f"tools: {error}", file=sys.stderr)
        return EXIT_FAILED
    return subprocess.call([program, *arguments[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
