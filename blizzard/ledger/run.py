"""One run of the ledger: an immutable object of blocks, a filter and an index. Writing it, and reading parts of it.

    block 0 │ block 1 │ … │ filter │ index

A block is read only if it may have a wanted file. Filter and index are held in memory.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice

from blizzard.errors import UnreadableState
from blizzard.ledger.block_codec import decode_block, encode_block
from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.path_filter import PathFilter, digest_of, filter_bytes
from blizzard.ledger.run_index import RunIndex, decode_index, encode_index
from blizzard.state.run_ref import RunRef, SequenceRange
from blizzard.state.watermark import split_path
from blizzard.storage.base import ObjectStore, ObjectWriter

BLOCK_ENTRIES = 512
"""Some 20 KB for S3's names and etags: a request takes hardly longer than for one entry."""
_READ_BYTES = 1 << 20
"""Blocks that are near each other are fetched together, up to this size."""
_GAP_BYTES = 1 << 15
_FILTER_READ_BYTES = 1 << 19
"""Some tens of these requests run in parallel, and each holds its bytes twice for a moment."""
_SMALL_RUN_FILES = 100_000


class Run:
    """A run whose index is in memory. Without a filter, every path may be in it that is not above all others of its
    partition."""

    def __init__(
        self, store: ObjectStore, folder: str, ref: RunRef, index: RunIndex, path_filter: PathFilter | None
    ) -> None:
        self._store = store
        self._key = folder + ref.name
        self.ref = ref
        self.index = index
        self.filter = path_filter

    def __repr__(self) -> str:
        return f"Run({self.ref.name}, {self.ref.files} files)"

    def blocks_of(self, wanted: Iterable[tuple[str, int]]) -> dict[int, list[str]]:
        """The blocks that may have a wanted file, by number, each with the files in question. `wanted`: paths with
        their digests."""
        blocks: dict[int, list[str]] = {}
        for path, digest in wanted:
            if self._may_contain(path, digest):
                number = self.index.block_of(path)
                if number >= 0:
                    blocks.setdefault(number, []).append(path)
        return blocks

    def _may_contain(self, path: str, digest: int) -> bool:
        if self.filter is not None:
            return self.filter.may_contain(digest)
        partition, name = split_path(path)
        stats = self.index.partitions.get(partition)
        return stats is not None and name <= stats.last_name

    def reads(self, numbers: Iterable[int]) -> list[range]:
        """The blocks, in as few requests as are worth it: ranges of neighbours, with small gaps in between."""
        offsets, found = self.index.offsets, []
        first = last = -1
        for number in sorted(numbers):
            joins = last >= 0 and offsets[number] - offsets[last + 1] <= _GAP_BYTES
            if joins and offsets[number + 1] - offsets[first] <= _READ_BYTES:
                last = number
                continue
            if last >= 0:
                found.append(range(first, last + 1))
            first = last = number
        return [*found, range(first, last + 1)] if last >= 0 else found

    def read(self, numbers: range) -> Iterator[tuple[int, bytes]]:
        """The bytes of neighbouring blocks, with one request. Raises UnreadableState if they are damaged."""
        offsets, start = self.index.offsets, self.index.offsets[numbers.start]
        data = self._store.get_range(self._key, start, offsets[numbers.stop] - start)
        for number in numbers:
            block = data[offsets[number] - start : offsets[number + 1] - start]
            yield number, self.index.check_block(number, block)

    def find(self, paths: Sequence[str], data: bytes) -> Iterator[LedgerEntry]:
        """Those of the paths that the block with these bytes has."""
        block = decode_block(data)
        return filter(None, map(block.find, paths))

    def scan(self, start: str = "", through: str | None = None) -> Iterator[LedgerEntry]:
        """The entries from `start` (inclusive) on, sorted, with one request for about a megabyte. No block is read that
        begins above `through`, but of its last block there may be entries above it (None: all are read)."""
        first = max(0, self.index.block_of(start))
        end = len(self.index.starts) if through is None else self.index.block_of(through) + 1
        for numbers in self.reads(range(first, end)):
            for _, data in self.read(numbers):
                yield from (entry for entry in decode_block(data) if entry.path >= start)


@dataclass(slots=True)
class RunLoading:
    """The requests that load a run: `calls` may run in parallel, in any order; then `run` is complete.

    `with_filter`: for looking up files that are mostly new. `calls` raise NotFound, StorageError, StorageUnavailable or
    UnreadableState.
    """

    store: ObjectStore
    folder: str
    ref: RunRef
    source_id: str
    with_filter: bool
    _index: RunIndex | None = None
    _bits: bytearray | None = None

    def calls(self) -> list[Callable[[], None]]:
        if not self.with_filter:
            return [self._load_index]
        ref = self.ref
        self._bits = bytearray(ref.index_at - ref.filter_at)
        # The index lies behind the filter: a small run takes one request.
        if ref.size - ref.filter_at <= _FILTER_READ_BYTES:
            return [self._load_both]
        starts = range(ref.filter_at, ref.index_at, _FILTER_READ_BYTES)
        return [self._load_index, *(lambda start=start: self._load_bits(start) for start in starts)]

    def run(self) -> Run:
        """Raises UnreadableState."""
        index = self._index
        if index is None:
            raise UnreadableState(f"the index of run {self.ref.name} was not loaded")
        if self._bits is not None and zlib.crc32(self._bits) != index.filter_checksum:
            raise UnreadableState(f"the filter of run {self.ref.name} is damaged")
        return Run(self.store, self.folder, self.ref, index, None if self._bits is None else PathFilter(self._bits))

    def _load_both(self) -> None:
        ref = self.ref
        data = self._get(ref.filter_at, ref.size)
        self._bits = bytearray(data[: ref.index_at - ref.filter_at])
        self._index = decode_index(data[ref.index_at - ref.filter_at :], ref, self.source_id)

    def _load_index(self) -> None:
        self._index = decode_index(self._get(self.ref.index_at, self.ref.size), self.ref, self.source_id)

    def _load_bits(self, start: int) -> None:
        end = min(start + _FILTER_READ_BYTES, self.ref.index_at)
        at = start - self.ref.filter_at
        if self._bits is not None:
            self._bits[at : at + end - start] = self._get(start, end)

    def _get(self, start: int, end: int) -> bytes:
        data = self.store.get_range(self.folder + self.ref.name, start, end - start)
        if len(data) != end - start:
            raise UnreadableState(f"run {self.ref.name} is shorter than the checkpoint says")
        return data


def write_run(
    store: ObjectStore,
    folder: str,
    entries: Iterable[LedgerEntry],
    *,
    sequences: SequenceRange,
    previous: str | None,
    source_id: str,
    run_id: str,
    max_files: int,
) -> Run:
    """Write a run. `entries` are sorted by path, at most `max_files`, and one for each path. `previous`: the name of
    the receipt before the first of the commits `sequences`; None if there is none, or it is unknown."""
    index, count = RunIndex(source_id, previous), 0
    path_filter = PathFilter(bytearray(filter_bytes(max_files)))
    remaining = iter(entries)
    key = f"{folder}{sequences.first:020d}-{sequences.last:020d}-{run_id}.run"
    with _writer(store, key, max_files) as writer:
        while block := [*islice(remaining, BLOCK_ENTRIES)]:
            data = encode_block(block)
            index.add_block(block, data)
            for entry in block:
                path_filter.add(digest_of(entry.path))
            writer.write(data)
            count += len(block)
        index.filter_checksum = zlib.crc32(path_filter.bits)
        packed, digest = encode_index(index)
        writer.write(path_filter.bits)
        writer.write(packed)
    filter_at = index.offsets[-1]
    index_at = filter_at + len(path_filter.bits)
    ref = RunRef(sequences.first, sequences.last, run_id, count, filter_at, index_at, index_at + len(packed), digest)
    return Run(store, folder, ref, index, path_filter)


@contextmanager
def _writer(store: ObjectStore, key: str, max_files: int) -> Iterator[ObjectWriter]:
    """A small run is written with one request."""
    if max_files > _SMALL_RUN_FILES:
        with store.writer(key) as writer:
            yield writer
        return
    body = BytesIO()
    yield body
    store.put(key, body.getvalue())
