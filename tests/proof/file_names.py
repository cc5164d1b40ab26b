"""The names of the files that land in a campaign: in order and at random, flat and in partitions, beside each other."""

import random
from uuid import UUID

from tests.proof.campaign import Run

RANDOM_NAMES, IN_PARTITIONS = "files with random names", "files in partitions"
"""Counts."""
_IN_ORDER, _AT_RANDOM, _BOTH = "day=1/", "day=2/", ("", "day=3/")


def drawn(rng: random.Random, number: int, ending: str, run: Run) -> str:
    """A new path; `number` grows. One partition has only names in order, another only random ones, and the others
    both. Each kind comes among four files that follow each other."""
    at_random, partitioned = number % 2 == 1, number // 2 % 2 == 1
    run.counts[RANDOM_NAMES] += at_random
    run.counts[IN_PARTITIONS] += partitioned
    name = f"part-{UUID(int=rng.getrandbits(128), version=4)}" if at_random else f"part-{number:06d}"
    own = _AT_RANDOM if at_random else _IN_ORDER
    folder = rng.choice((own, _BOTH[1])) if partitioned else _BOTH[0]
    return f"{folder}{name}{ending}"
