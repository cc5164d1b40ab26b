"""A Bloom filter over the paths of a run: it says for nearly every new file, without a request, that a run lacks it."""

from hashlib import blake2b

_HASHES = 9
_LOW = 0xFFFF_FFFF
_BITS_PER_PATH, _BITS_PER_PATH_OF_LARGE_RUNS = 18, 8
LARGE_RUN = 1 << 24
"""From this many files on a filter has 8 bits a path instead of 18, and passes 3 instead of 0.02 % of other paths: a
driver holds the filters of all runs in memory."""


def digest_of(path: str) -> int:
    """64 bits of a hash that is the same on every machine."""
    return int.from_bytes(blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def filter_bytes(paths: int) -> int:
    """The size of a filter for this many paths."""
    return -(-paths * (_BITS_PER_PATH if paths < LARGE_RUN else _BITS_PER_PATH_OF_LARGE_RUNS) // 8) or 1


class PathFilter:
    """`bits`: the filter's content, all zero at first. Paths are named by their digests."""

    def __init__(self, bits: bytearray) -> None:
        self.bits = bits

    def add(self, digest: int) -> None:
        bits, size = self.bits, 8 * len(self.bits)
        at, step = digest & _LOW, digest >> 32 | 1
        for _ in range(_HASHES):
            bit = at % size
            bits[bit >> 3] |= 1 << (bit & 7)
            at += step

    def may_contain(self, digest: int) -> bool:
        """False only if the path was not added."""
        bits, size = self.bits, 8 * len(self.bits)
        at, step = digest & _LOW, digest >> 32 | 1
        for _ in range(_HASHES):
            bit = at % size
            if not bits[bit >> 3] & 1 << (bit & 7):
                return False
            at += step
        return True
