"""The pending manifest: an ordered log of files to ingest, one per source, stored as numbered segments.

A conditional write creates each segment under the next free number. A segment never changes. It names the etag of the
segment before it, so a reader detects that the manifest was deleted, truncated or restarted. Marks that rest on lost
segments are then ignored, and the next sweep lists those files again.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

from blizzard.errors import AlreadyExists, NotFound, StorageUnavailable, UnreadableState
from blizzard.manifest.segment_codec import decode_segment, encode_segment
from blizzard.manifest.segments import Entry, Position, Segment, SegmentRef, Sweep, UnconsumedSegment
from blizzard.storage.base import ObjectInfo, ObjectStore

MAX_RACES = 50
TRIM_LOOKBACK = 10_000
"""So many segments before its position a process looks for ones that an earlier process left when it was killed. In a
versioned bucket a listing of all of them passes the delete markers of a month."""
CACHE_BYTES = 8 << 20
"""Limit for the stored size of the cached segments. In memory they take several times as much."""


class _SegmentCache:
    """The first segments of the last read, up to CACHE_BYTES, so that the next read does not fetch them again."""

    def __init__(self) -> None:
        self._segments: dict[SegmentRef, Segment] = {}
        self._bytes = 0

    def get(self, ref: SegmentRef) -> Segment | None:
        return self._segments.get(ref)

    def add(self, ref: SegmentRef, segment: Segment) -> None:
        if ref not in self._segments and self._bytes + ref.size <= CACHE_BYTES:
            self._segments[ref] = segment
            self._bytes += ref.size

    def keep_only(self, refs: Iterable[SegmentRef]) -> None:
        self._segments = {ref: self._segments[ref] for ref in refs if ref in self._segments}
        self._bytes = sum(ref.size for ref in self._segments)


class Manifest:
    """One source's pending manifest, below `{state_prefix}/pending/` of the table's store.

    `prefetch`: how many segments to fetch ahead in background threads; 0 fetches each one when it is needed.
    """

    def __init__(self, store: ObjectStore, state_prefix: str, source_id: str, *, prefetch: int = 0) -> None:
        self._store = store
        self._folder = f"{state_prefix}/pending/"
        self._source_id = source_id
        self._prefetch = prefetch
        self._last_known = 0
        self._trimmed_before = 0
        self._cache = _SegmentCache()

    def append(
        self,
        entries: Sequence[Entry],
        *,
        writer_id: str,
        now_ts: float,
        sweep: Sweep | None = None,
        floor: int = 0,
    ) -> int:
        """Create the next segment and return its number, which is at least `floor` (the checkpoint's position, or 0).

        If another writer takes the number first, the next number is tried. A number may also be free because other
        writers' segments were consumed and trimmed since the listing. No reader would ever reach a segment with such a
        number, so the entries are appended again after the newest segment. A duplicate entry does no harm.
        """
        for _ in range(MAX_RACES):
            number, previous = self._next_number(floor)
            segment = Segment(number, tuple(entries), sweep, previous, writer_id, now_ts)
            try:
                created = self._store.create(self._key(number), encode_segment(segment, self._source_id))
            except AlreadyExists:
                continue
            self._last_known = number
            if self._is_reachable(number, created.etag):
                return number
        raise StorageUnavailable(
            f"{MAX_RACES} other writers in a row took the next segment number of {self._folder} first. "
            "Nothing is lost; try again. If this repeats, run fewer collectors at a time (MaximumConcurrency)."
        )

    def _next_number(self, floor: int) -> tuple[int, str | None]:
        """The number after the newest segment, and that segment's etag; None if it is not the one right before."""
        newest = self._newest(floor)
        number = max(newest.number + 1 if newest else 0, floor)
        return number, newest.etag if newest and newest.number == number - 1 else None

    def _is_reachable(self, number: int, etag: str) -> bool:
        """Whether no segment follows, or the next one names `etag`. The newest segment is never trimmed."""
        for following in self.refs(number + 1, at_most=1):
            try:
                return following.number == number + 1 and self.read(following).previous == etag
            except (NotFound, UnreadableState):
                return False
        return True

    def refs(self, start: int = 0, *, at_most: int | None = None) -> list[SegmentRef]:
        """The segments from number `start` (inclusive), in order; None: all of them."""
        after = self._key(start - 1) if start > 0 else self._folder
        listed = (self._ref(info) for info in self._store.list(self._folder, start_after=after))
        return list(islice((ref for ref in listed if ref is not None), at_most))

    def read(self, ref: SegmentRef) -> Segment:
        """Raises NotFound if it was trimmed, UnreadableState if it is not a segment of this source."""
        return self._cache.get(ref) or self._decode(ref, self._fetch(ref))

    def _fetch(self, ref: SegmentRef) -> Callable[[], bytes]:
        return partial(self._store.get, self._key(ref.number))

    def _decode(self, ref: SegmentRef, fetch: Callable[[], bytes]) -> Segment:
        return decode_segment(fetch(), self._source_id, ref)

    def unconsumed(
        self, position: Position, unreadable: list[UnreadableState] | None = None, *, at_most: int | None = None
    ) -> Iterator[UnconsumedSegment]:
        """The segments at and after `position`, lazily and in order. Errors of unreadable segments go to `unreadable`.

        If the manifest does not continue from `position` (see `_from_position`), all of its segments. `at_most` limits
        how many segments are listed.

        The first segments stay in a cache, since a job that waits for a full batch reads them every second.
        """
        refs = self.refs(max(position.last_touched, 0), at_most=at_most)
        continues, segments = self._from_position(position, refs, [] if unreadable is None else unreadable, at_most)
        expected, etag = position.segment if continues else None, position.etag
        since, chain_id = position.unbroken_since, position.chain
        for segment in segments:
            first = position.entry if continues and segment.number == position.segment else 0
            linked = segment.number == expected and (first > 0 or segment.previous == etag)
            if not linked or chain_id is None:
                since, chain_id = segment.number, f"{etag or ''}>{segment.etag}"
            yield UnconsumedSegment(segment, first, since, chain_id)
            expected, etag = segment.number + 1, segment.etag

    def _from_position(
        self, position: Position, refs: list[SegmentRef], unreadable: list[UnreadableState], at_most: int | None
    ) -> tuple[bool, Iterator[Segment]]:
        """Whether the manifest continues from `position`, and the segments to read.

        It does if the segment last touched still has the same etag or, where that one is trimmed, if the next segment
        names it. Otherwise the manifest was deleted or restarted, and all of its segments are read.
        """
        head = refs[0] if refs else None
        if head is not None and head.number == position.last_touched and head.etag == position.etag:
            return True, self._read_in_order([ref for ref in refs if ref.number >= position.segment], unreadable)
        if head is not None and head.number == position.segment and not position.entry:
            errors_before, segments = len(unreadable), self._read_in_order(refs, unreadable)
            first = next(segments, None)
            if first is not None and first.number == head.number and first.previous == position.etag:
                return True, chain([first], segments)
            segments.close()
            del unreadable[errors_before:]
        return False, self._read_in_order(self.refs(at_most=at_most), unreadable)

    def _read_in_order(
        self, refs: Sequence[SegmentRef], unreadable: list[UnreadableState]
    ) -> Generator[Segment, None, None]:
        """The readable segments. The cache drops all others, since positions only move forward."""
        self._cache.keep_only(refs)
        for ref, fetch in self._prefetched(refs):
            try:
                segment = self._cache.get(ref) or self._decode(ref, fetch)
            except NotFound:
                continue
            except UnreadableState as error:
                unreadable.append(error)
                continue
            self._cache.add(ref, segment)
            yield segment

    def _prefetched(self, refs: Iterable[SegmentRef]) -> Iterator[tuple[SegmentRef, Callable[[], bytes]]]:
        """Each segment with a function that returns its bytes. With `prefetch` the request is already under way."""
        if not self._prefetch:
            yield from ((ref, self._fetch(ref)) for ref in refs)
            return
        queue: deque[tuple[SegmentRef, Callable[[], bytes]]] = deque()
        pool = ThreadPoolExecutor(self._prefetch, thread_name_prefix="segment")
        try:
            for ref in refs:
                cached = self._cache.get(ref) is not None
                queue.append((ref, self._fetch(ref) if cached else pool.submit(self._fetch(ref)).result))
                if len(queue) > self._prefetch:
                    yield queue.popleft()
            yield from queue
        finally:  # a reader that stops early does not wait for requests in flight; the next batch fetches them again
            pool.shutdown(wait=False, cancel_futures=True)

    def trim(self, position: Position) -> int:
        """Delete the consumed segments, except the newest one. Returns how many were deleted.

        Deletes nothing if the segment that `position` last touched is not there: this is then another manifest.
        """
        start = self._trimmed_before or position.last_touched - TRIM_LOOKBACK
        listed = self.refs(max(0, min(start, position.last_touched)))
        if (position.last_touched, position.etag) not in {(ref.number, ref.etag) for ref in listed}:
            return 0
        consumed = [ref.number for ref in listed[:-1] if ref.number < position.segment]
        self._store.delete(self._key(number) for number in consumed)
        self._trimmed_before = position.last_touched
        return len(consumed)

    @property
    def has_appended(self) -> bool:
        """Whether this process knows where the newest segments are."""
        return self._last_known > 0

    def _newest(self, floor: int) -> SegmentRef | None:
        """The newest segment is never trimmed, so it is hardly ever below the one before `floor`."""
        refs = self.refs(max(self._last_known, floor - 1)) or self.refs()
        return refs[-1] if refs else None

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:020d}.json"

    def _ref(self, info: ObjectInfo) -> SegmentRef | None:
        """None for an object whose name is not that of a segment."""
        name = info.key.removeprefix(self._folder).removesuffix(".json")
        number = int(name) if name.isascii() and name.isdigit() else -1
        return SegmentRef(number, info.etag, info.size) if info.key == self._key(number) else None
