"""Runs a tool, and creates its environment first if needed: `python -m infra.tools sam validate --lint`.

`python -m infra.tools --prebuild versitygw` only builds it, so that tests need not wait for it. Without Go it says so,
and succeeds. So it is done with Python tools, of which one that cannot be installed is an error."""

import subprocess
import sys
from pathlib import Path

from blizzard.errors import SetupError
from infra.tools.environments import PROGRAMS, Tools
from infra.tools.go_programs import GO_PROGRAMS, GoTools, GoUnavailable

EXIT_FAILED = 2
KNOWN = (*PROGRAMS, *GO_PROGRAMS)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--prebuild"]:
        return prebuild(arguments[1:])
    if not arguments or arguments[0] not in KNOWN:
        print(f"tools: expected one of {', '.join(KNOWN)} and its arguments", file=sys.stderr)
        return EXIT_FAILED
    try:
        program = program_of(arguments[0])
    except SetupError as error:
        print(f"tools: {error}", file=sys.stderr)
        return EXIT_FAILED
    return subprocess.call([program, *arguments[1:]])


def program_of(name: str) -> Path:
    """Of one of KNOWN. Raises SetupError."""
    checkout = Path(__file__).parents[2]
    return GoTools(checkout).program(GO_PROGRAMS[name]) if name in GO_PROGRAMS else Tools(checkout).program(name)


def prebuild(names: list[str]) -> int:
    try:
        for name in names:
            program_of(name)
    except GoUnavailable as error:
        print(f"tools: the tests that need it will be skipped: {error}", file=sys.stderr)
    except SetupError as error:
        print(f"tools: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
