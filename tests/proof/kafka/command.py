"""A command of `blizzard` in a process of its own: `python -m tests.proof.kafka.command VARIANT ARGUMENTS…`. VARIANT -
breaks nothing."""

import sys

from blizzard.cli import main
from tests.proof.kafka.variants import BREAKS

if __name__ == "__main__":
    if sys.argv[1] != "-":
        BREAKS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
