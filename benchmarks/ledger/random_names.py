"""Names as most producers give them: a UUID in a dated folder. The same seed gives the same names."""

import random
from collections.abc import Iterator

from blizzard.ledger.entry import FileState, LedgerEntry

PARTITIONS = 30
TIME_MS = 1_769_000_000_000


def partition(number: int) -> str:
    return f"date=2026-01-{1 + number % PARTITIONS:02}"


def file_name(bits: int) -> str:
    """`bits`: 128 of them, which become the UUID."""
    digits = f"{bits:032x}"
    return f"part-00000-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}.json"


def paths(count: int, seed: str) -> list[str]:
    """In no order, over all partitions."""
    rng = random.Random(seed)
    return [f"{partition(number)}/{file_name(rng.getrandbits(128))}" for number in range(count)]


def entries(count: int, first: int, last: int, seed: str) -> Iterator[LedgerEntry]:
    """The sorted entries of a run of the commits `first` through `last`, with etags as S3's. Holds the numbers of one
    partition in memory."""
    rng = random.Random(seed)
    bits, commits = rng.getrandbits, last - first + 1
    for number in range(PARTITIONS):
        folder = partition(number) + "/"
        share = count * (number + 1) // PARTITIONS - count * number // PARTITIONS
        for name in sorted(bits(128) for _ in range(share)):
            etag = bits(128)
            sequence = first + etag % commits
            time_ms = TIME_MS + 60_000 * sequence + etag % 60_000
            path = folder + file_name(name)
            yield LedgerEntry(path, sequence, f"{etag:032x}", 1_000 + etag % 1_000, time_ms, 10, 0, FileState.DONE)
