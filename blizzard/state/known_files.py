"""A compact set of committed files with their etags."""

from hashlib import blake2b

MAX_FILES = 10_000_000
"""About 280 MB."""
_PATH_BYTES = 16
_BUCKET_BYTES = 2
_ETAG_BYTES = 8
_RECORD_BYTES = _PATH_BYTES - _BUCKET_BYTES + _ETAG_BYTES


class KnownFiles:
    """Paths with the first etag added for each, as digests: 128 bits of the path and 64 bits of the etag, so that
    collisions do not occur in practice. Takes 6 MB plus about 27 bytes a file. After `max_files` files, further ones
    are ignored."""

    def __init__(self, max_files: int = MAX_FILES) -> None:
        self._max_files = max_files
        self._count = 0
        # Concatenated records, by the first bytes of the digest of their path.
        self._records: dict[bytes, bytearray] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count >= self._max_files

    def add(self, path: str, etag: str) -> None:
        """A path that was added before keeps its first etag."""
        bucket, rest = _digest_of(path)
        records = self._records.setdefault(bucket, bytearray())
        if not self.full and _find_etag(records, rest) is None:
            records += rest + _etag_digest(etag)
            self._count += 1

    def contains(self, path: str, etag: str) -> bool:
        """Whether the path was added with this etag."""
        bucket, rest = _digest_of(path)
        return _find_etag(self._records.get(bucket, b""), rest) == _etag_digest(etag)


def _find_etag(records: bytes | bytearray, rest: bytes) -> bytes | None:
    """The etag digest of the record that begins with `rest`; None if there is none."""
    at = records.find(rest)
    while at >= 0 and at % _RECORD_BYTES:
        at = records.find(rest, at + 1)
    return bytes(records[at + len(rest) : at + _RECORD_BYTES]) if at >= 0 else None


def _digest_of(path: str) -> tuple[bytes, bytes]:
    digest = blake2b(path.encode(errors="surrogatepass"), digest_size=_PATH_BYTES).digest()
    return digest[:_BUCKET_BYTES], digest[_BUCKET_BYTES:]


def _etag_digest(etag: str) -> bytes:
    return blake2b(etag.encode(errors="surrogatepass"), digest_size=_ETAG_BYTES).digest()
