"""Runs a tool, and creates its environment first if needed: `python -m infra.tools sam validate --lint`.

`python -m infra.tools --prebuild versitygw kafka` only builds versitygw and downloads Kafka, so that tests need not
wait for them. Without Go it says so, and goes on. So it is done with Python tools. One of these, or a jar, that cannot
be had is an error."""

import subprocess
import sys
from pathlib import Path

from blizzard.errors import BlizzardError, SetupError
from infra.tools.environments import PROGRAMS, Tools
from infra.tools.go_programs import GO_PROGRAMS, GoTools, GoUnavailable
from infra.tools.java_programs import JAVA_PROGRAMS, JavaTools

EXIT_FAILED = 2
CHECKOUT = Path(__file__).parents[2]
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
    return GoTools(CHECKOUT).program(GO_PROGRAMS[name]) if name in GO_PROGRAMS else Tools(CHECKOUT).program(name)


def prebuild(names: list[str]) -> int:
    for name in names:
        try:
            make(name)
        except GoUnavailable as error:
            print(f"tools: the tests that need it will be skipped: {error}", file=sys.stderr)
        except BlizzardError as error:
            print(f"tools: {error}", file=sys.stderr)
            return EXIT_FAILED
    return 0


def make(name: str) -> None:
    """Of one of KNOWN or JAVA_PROGRAMS. Raises SetupError or ConfigError."""
    if name in JAVA_PROGRAMS:
        JavaTools(CHECKOUT).jars(JAVA_PROGRAMS[name])
    else:
        program_of(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
