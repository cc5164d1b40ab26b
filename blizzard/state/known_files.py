"""Files that are known to be committed, each with its etag, in a few bytes of memory."""

from hashlib import blake2b

MOST_FILES = 10_000_000
"""About 280 MB."""
_PATH_BYTES = 16
_FOLDED_BYTES = 2
_ETAG_BYTES = 8
_RECORD_BYTES = _PATH_BYTES - _FOLDED_BYTES + _ETAG_BYTES


class KnownFiles:
    """The first etag that was said of each path, as digests: 128 bits of a path and 64 of an etag, so that no two files
    are ever taken for one. Some 27 bytes a file, and 6 MB at once; beyond `most` files nothing is added."""

    def __init__(self, most: int = MOST_FILES) -> None:
        self._most = most
        self._count = 0
        # Records by the first bytes of their paths' digests, behind each other.
        self._records: dict[bytes, bytearray] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= self._most

    def add(self, path: str, etag: str) -> None:
        """What is known of a path already stays."""
        folded, rest = _digest_of(path)
        records = self._records.setdefault(folded, bytearray())
        if not self.full and _found(records, rest) is None:
            records += rest + _etag_digest(etag)
            self._count += 1

    def contains(self, path: str, etag: str) -> bool:
        """Whether this is the path's etag."""
        folded, rest = _digest_of(path)
        return _found(self._records.get(folded, b""), rest) == _etag_digest(etag)


def _found(records: bytes | bytearray, rest: bytes) -> bytes | None:
    """What follows `rest` where a record begins with it."""
    at = records.find(rest)
    while at >= 0 and at % _RECORD_BYTES:
        at = records.find(rest, at + 1)
    return bytes(records[at + len(rest) : at + _RECORD_BYTES]) if at >= 0 else None


def _digest_of(path: str) -> tuple[bytes, bytes]:
    digest = blake2b(path.encode(errors="surrogatepass"), digest_size=_PATH_BYTES).digest()
    return digest[:_FOLDED_BYTES], digest[_FOLDED_BYTES:]


def _etag_digest(etag: str) -> bytes:
    return blake2b(etag.encode(errors="surrogatepass"), digest_size=_ETAG_BYTES).digest()
