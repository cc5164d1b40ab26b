"""Runs a tool, and creates its environment first if needed: `python -m infra.tools sam validate --lint`.

`python -m infra.tools --prebuild versitygw` only builds it, so that tests need not wait for it. Without Go it says so,
and succeeds."""

import subprocess
import sys
from pathlib import Path

from blizzard.errors import SetupError
from infra.tools.environments import PROGRAMS, Tools
from infra.tools.go_programs import GO_PROGRAMS, GoTools, GoUnavailable

EXIT_FAILED = 2


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--prebuild"]:
        return prebuild(arguments[1:])
    known = (*PROGRAMS, *GO_PROGRAMS)
    if not arguments or arguments[0] not in known:
        print(f"tools: expected one of {', '.join(known)} and its arguments", file=sys.stderr)
        return EXIT_FAILED
    name, checkout = arguments[0], Path(__file__).parents[2]
    try:
        program = GoTools(checkout).program(GO_PROGRAMS[name]) if name in GO_PROGRAMS else Tools(checkout).program(name)
    except SetupError as error:
        print(f"tools: {error}", file=sys.stderr)
        return EXIT_FAILED
    return subprocess.call([program, *arguments[1:]])


def prebuild(names: list[str]) -> int:
    try:
        for name in names:
            GoTools(Path(__file__).parents[2]).program(GO_PROGRAMS[name])
    except GoUnavailable as error:
        print(f"tools: the tests that need it will be skipped: {error}", file=sys.stderr)
    except SetupError as error:
        print(f"tools: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
