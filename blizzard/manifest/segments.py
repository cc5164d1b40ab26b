"""The pending manifest: the ordered log of files to ingest, one per source, as numbered segments on storage.

A segment is created once, by a conditional write of the next number, and never changed. Each names the etag of the one
before it, so a reader notices when the manifest was wiped, cut or began again: what it then no longer knows to be
complete it does not believe, and the next sweep lists it anew.
"""

import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain as chained
from itertools import islice
from typing import Any

from blizzard.errors import AlreadyExists, NotFound, StorageUnavailable, UnreadableState
from blizzard.storage import json_fields as fields
from blizzard.storage.base import ObjectInfo, ObjectStore

FORMAT = 1
MAX_RACES = 50
KEPT_BYTES = 8 << 20
"""Of segments as they are stored; in memory they take a few times as much."""


class FoundBy(StrEnum):
    """Who put an entry into the manifest."""

    EVENT = "event"
    SWEEP = "sweep"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to ingest. `event_ts` (Unix seconds) is the event's time, for a swept file its modification time."""

    path: str
    size: int
    etag: str
    event_ts: float
    found_by: FoundBy = FoundBy.EVENT
    version_id: str | None = None
    sequencer: str | None = None


@dataclass(frozen=True, slots=True)
class SettleMark:
    """Partition `partition` was listed completely from `after` (exclusive; None: its start) through `through`.

    Both are file names. All that was listed is in the manifest or was in the state before the mark.
    """

    partition: str
    after: str | None
    through: str


@dataclass(frozen=True, slots=True)
class Closing:
    """Every partition up to and including folder `through` is complete and quiet.

    `after` is the `closed_through` that the sweep began from; a cold start closes what lies before the lookback.
    """

    after: str | None
    through: str
    cold: bool = False


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep says beside the entries that it found."""

    marks: tuple[SettleMark, ...] = ()
    closing: Closing | None = None
    late_swept_ts: float | None = None
    relies_on: int = 0
    """Lowest number of the segments that the sweep counted as already appended: if one of them was never consumed, the
    marks prove nothing."""
    chain: str | None = None
    """The chain that those segments belong to, since numbers come again after a wipe; None when there were none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One numbered object of the manifest."""

    number: int
    entries: tuple[Entry, ...]
    sweep: Sweep | None
    previous: str | None
    """Etag of the segment before it as its writer saw it; None when there was none."""
    writer_id: str
    written_ts: float
    etag: str = ""


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """A segment as it stands in a listing."""

    number: int
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class Position:
    """The next entry to consume.

    `etag` is that of the segment last touched: `segment` itself when `entry` > 0, else the one before it. Every segment
    from `unbroken_since` up to here is known to have been consumed; `chain` names that run of segments: what was read
    before it and its first. Numbers come again after a wipe, etags do not.
    """

    segment: int = 0
    entry: int = 0
    etag: str | None = None
    unbroken_since: int = 0
    chain: str | None = None

    @property
    def last_touched(self) -> int:
        return self.segment if self.entry else self.segment - 1


@dataclass(frozen=True, slots=True)
class Unconsumed:
    """A segment with what of it is left, and the position after it."""

    segment: Segment
    first_entry: int
    unbroken_since: int
    chain: str

    @property
    def marks_hold(self) -> bool:
        """Whether the sweep's marks rest on segments that were all consumed."""
        sweep = self.segment.sweep
        return sweep is not None and sweep.relies_on >= self.unbroken_since and sweep.chain in (None, self.chain)

    def position_at(self, entry: int) -> Position:
        """The position once the first `entry` entries are consumed; all of them moves on to the next segment."""
        number, total = self.segment.number, len(self.segment.entries)
        if entry < total:
            etag = self.segment.etag if entry else self.segment.previous
            return Position(number, entry, etag, self.unbroken_since, self.chain)
        return Position(number + 1, 0, self.segment.etag, self.unbroken_since, self.chain)


def encode_segment(segment: Segment, source_id: str) -> bytes:
    """The JSON that is stored; the same segment always gives the same bytes."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "source": source_id,
        "segment": segment.number,
        "previous": segment.previous,
        "writer": segment.writer_id,
        "written_ts": segment.written_ts,
        "entries": [_encode_entry(entry) for entry in segment.entries],
    }
    if segment.sweep is not None:
        document["sweep"] = _encode_sweep(segment.sweep)
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def _encode_entry(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {
        "path": entry.path,
        "size": entry.size,
        "etag": entry.etag,
        "event_ts": entry.event_ts,
        "found_by": str(entry.found_by),
    }
    if entry.version_id is not None:
        document["version_id"] = entry.version_id
    if entry.sequencer is not None:
        document["sequencer"] = entry.sequencer
    return document


def _encode_sweep(sweep: Sweep) -> dict[str, Any]:
    document: dict[str, Any] = {
        "relies_on": sweep.relies_on,
        "settled": [{"partition": m.partition, "after": m.after, "through": m.through} for m in sweep.marks],
    }
    if sweep.chain is not None:
        document["chain"] = sweep.chain
    if sweep.closing is not None:
        closing = sweep.closing
        document["closing"] = {"after": closing.after, "through": closing.through, "cold": closing.cold}
    if sweep.late_swept_ts is not None:
        document["late_swept_ts"] = sweep.late_swept_ts
    return document


def decode_segment(data: bytes, source_id: str, ref: SegmentRef) -> Segment:
    """Raises UnreadableState for anything that is not segment `ref.number` of this very source."""
    try:
        document = json.loads(data)
        found = (document["format"], document["source"], document["segment"])
        if found != (FORMAT, source_id, ref.number):
            raise UnreadableState(
                f"segment {ref.number} of {source_id} says it is format, source, number {found!r:.200}; "
                f"expected {(FORMAT, source_id, ref.number)}. It is skipped and the next sweep lists its files anew."
            )
        return Segment(
            number=ref.number,
            entries=tuple(_decode_entry(entry) for entry in fields.array(document["entries"])),
            sweep=_decode_sweep(document["sweep"]) if "sweep" in document else None,
            previous=fields.optional_text(document["previous"]),
            writer_id=fields.text(document["writer"]),
            written_ts=fields.number(document["written_ts"]),
            etag=ref.etag,
        )
    except fields.MALFORMED as error:
        raise UnreadableState(
            f"segment {ref.number} of {source_id} cannot be read ({type(error).__name__}: {error!s:.200}). "
            "It is skipped and the next sweep lists its files anew."
        ) from error


def _decode_entry(document: dict[str, Any]) -> Entry:
    return Entry(
        path=fields.text(document["path"]),
        size=fields.natural(document["size"]),
        etag=fields.text(document["etag"]),
        event_ts=fields.number(document["event_ts"]),
        found_by=FoundBy(document["found_by"]),
        version_id=fields.optional_text(document.get("version_id")),
        sequencer=fields.optional_text(document.get("sequencer")),
    )


def _decode_sweep(document: dict[str, Any]) -> Sweep:
    closing, late = document.get("closing"), document.get("late_swept_ts")
    return Sweep(
        marks=tuple(
            SettleMark(fields.text(m["partition"]), fields.optional_text(m["after"]), fields.text(m["through"]))
            for m in fields.array(document["settled"])
        ),
        closing=None
        if closing is None
        else Closing(fields.optional_text(closing["after"]), fields.text(closing["through"]), closing["cold"] is True),
        late_swept_ts=None if late is None else fields.number(late),
        relies_on=fields.natural(document["relies_on"]),
        chain=fields.optional_text(document.get("chain")),
    )


class _Kept:
    """Segments that were read, the first ones of a walk, up to KEPT_BYTES: whoever walks again begins there."""

    def __init__(self) -> None:
        self._segments: dict[SegmentRef, Segment] = {}
        self._bytes = 0

    def get(self, ref: SegmentRef) -> Segment | None:
        return self._segments.get(ref)

    def add(self, ref: SegmentRef, segment: Segment) -> None:
        if ref not in self._segments and self._bytes + ref.size <= KEPT_BYTES:
            self._segments[ref] = segment
            self._bytes += ref.size

    def keep_only(self, refs: Iterable[SegmentRef]) -> None:
        self._segments = {ref: self._segments[ref] for ref in refs if ref in self._segments}
        self._bytes = sum(ref.size for ref in self._segments)


class Manifest:
    """One source's pending manifest below `{state_prefix}/pending/` of the table's store.

    `ahead`: who reads many segments fetches so many of them before their turn, where a request takes its time.
    """

    def __init__(self, store: ObjectStore, state_prefix: str, source_id: str, *, ahead: int = 0) -> None:
        self._store = store
        self._folder = f"{state_prefix}/pending/"
        self._source_id = source_id
        self._ahead = ahead
        self._last_known = 0
        self._kept = _Kept()

    def append(
        self,
        entries: Sequence[Entry],
        *,
        writer_id: str,
        now_ts: float,
        sweep: Sweep | None = None,
        floor: int = 0,
    ) -> int:
        """Create the next segment and return its number. `floor` is the checkpoint's position, where it is known.

        Another writer that takes the number first only means that the next one is tried. The number may also be free
        again: others took it, and what they appended was consumed and trimmed since the listing. Nobody would ever read
        such a segment, so the entries are appended once more, behind the newest; twice does no harm.
        """
        for _ in range(MAX_RACES):
            last = self._newest()
            number = max(last.number + 1 if last else 0, floor)
            previous = last.etag if last and last.number == number - 1 else None
            segment = Segment(number, tuple(entries), sweep, previous, writer_id, now_ts)
            try:
                created = self._store.create(self._key(number), encode_segment(segment, self._source_id))
            except AlreadyExists:
                continue
            self._last_known = number
            if self._is_followed_rightly(number, created.etag):
                return number
        raise StorageUnavailable(
            f"{MAX_RACES} writers in a row took the next segment of {self._folder} first; "
            "fewer collectors at a time (MaximumConcurrency) end this. Nothing is lost, the caller may try again."
        )

    def _is_followed_rightly(self, number: int, etag: str) -> bool:
        """Whether nothing is behind the segment, or one that names it. The newest segment is never trimmed."""
        for behind in self.refs(number + 1, at_most=1):
            try:
                return behind.number == number + 1 and self.read(behind).previous == etag
            except (NotFound, UnreadableState):
                return False
        return True

    def refs(self, start: int = 0, *, at_most: int | None = None) -> list[SegmentRef]:
        """The segments from number `start` on, in order; only the first `at_most` of them, if that is given."""
        after = self._key(start - 1) if start > 0 else self._folder
        listed = (self._ref(info) for info in self._store.list(self._folder, start_after=after))
        return list(islice((ref for ref in listed if ref is not None), at_most))

    def read(self, ref: SegmentRef) -> Segment:
        """Raises NotFound when it has been trimmed, UnreadableState when it is no segment of this source."""
        return self._kept.get(ref) or self._decoded(ref, self._get(ref))

    def _get(self, ref: SegmentRef) -> Callable[[], bytes]:
        return partial(self._store.get, self._key(ref.number))

    def _decoded(self, ref: SegmentRef, get: Callable[[], bytes]) -> Segment:
        return decode_segment(get(), self._source_id, ref)

    def unconsumed(
        self, position: Position, unreadable: list[UnreadableState] | None = None, *, at_most: int | None = None
    ) -> Iterator[Unconsumed]:
        """What lies at and behind `position`, lazily and in order; segments that cannot be read go to `unreadable`.

        Everything that is there, if this is not the manifest that `position` speaks of. `at_most`: no more segments
        than that are listed, for those who only look at the first ones.

        A segment never changes, so the first ones read are kept: a job that waits for a full batch looks every second.
        """
        refs = self.refs(max(position.last_touched, 0), at_most=at_most)
        stands, segments = self._stands(position, refs, [] if unreadable is None else unreadable, at_most)
        expected, etag = position.segment if stands else None, position.etag
        since, chain = position.unbroken_since, position.chain
        for segment in segments:
            first = position.entry if stands and segment.number == position.segment else 0
            linked = segment.number == expected and (first > 0 or segment.previous == etag)
            if not linked or chain is None:
                since, chain = segment.number, f"{etag or ''}>{segment.etag}"
            yield Unconsumed(segment, first, since, chain)
            expected, etag = segment.number + 1, segment.etag

    def _stands(
        self, position: Position, refs: list[SegmentRef], unreadable: list[UnreadableState], at_most: int | None
    ) -> tuple[bool, Iterator[Segment]]:
        """Whether this is the manifest that `position` speaks of, and the segments to read.

        It is if the segment last touched is still the one it was or, where that is trimmed, the next one names it.
        """
        head = refs[0] if refs else None
        if head is not None and head.number == position.last_touched and head.etag == position.etag:
            return True, self._walk([ref for ref in refs if ref.number >= position.segment], unreadable)
        if head is not None and head.number == position.segment and not position.entry:
            before, segments = len(unreadable), self._walk(refs, unreadable)
            first = next(segments, None)
            if first is not None and first.number == head.number and first.previous == position.etag:
                return True, chained([first], segments)
            segments.close()
            del unreadable[before:]
        return False, self._walk(self.refs(at_most=at_most), unreadable)

    def _walk(self, refs: Sequence[SegmentRef], unreadable: list[UnreadableState]) -> Generator[Segment, None, None]:
        """Those that can be read. What is kept of others is dropped: nobody reads before a position again."""
        self._kept.keep_only(refs)
        for ref, get in self._gets(refs):
            try:
                segment = self._kept.get(ref) or self._decoded(ref, get)
            except NotFound:
                continue
            except UnreadableState as error:
                unreadable.append(error)
                continue
            self._kept.add(ref, segment)
            yield segment

    def _gets(self, refs: Iterable[SegmentRef]) -> Iterator[tuple[SegmentRef, Callable[[], bytes]]]:
        """Each with what gets its bytes, which is under way already if it is to be fetched ahead."""
        if not self._ahead:
            yield from ((ref, self._get(ref)) for ref in refs)
            return
        waiting: deque[tuple[SegmentRef, Callable[[], bytes]]] = deque()
        pool = ThreadPoolExecutor(self._ahead, thread_name_prefix="segment")
        try:
            for ref in refs:
                known = self._kept.get(ref) is not None
                waiting.append((ref, self._get(ref) if known else pool.submit(self._get(ref)).result))
                if len(waiting) > self._ahead:
                    yield waiting.popleft()
            yield from waiting
        finally:  # who needs no more does not wait for what is under way; it is fetched again with the next batch
            pool.shutdown(wait=False, cancel_futures=True)

    def trim(self, position: Position) -> int:
        """Delete what was consumed, except the newest segment, and say how many that were.

        Nothing, if this is not the manifest that was consumed.
        """
        listed = self.refs()
        if (position.last_touched, position.etag) not in {(ref.number, ref.etag) for ref in listed}:
            return 0
        gone = [ref.number for ref in listed[:-1] if ref.number < position.segment]
        self._store.delete(self._key(number) for number in gone)
        return len(gone)

    def _newest(self) -> SegmentRef | None:
        refs = self.refs(self._last_known) or self.refs()
        return refs[-1] if refs else None

    def _key(self, number: int) -> str:
        return f"{self._folder}{number:020d}.json"

    def _ref(self, info: ObjectInfo) -> SegmentRef | None:
        """None for an object that is no segment, whoever put it there."""
        name = info.key.removeprefix(self._folder).removesuffix(".json")
        number = int(name) if name.isascii() and name.isdigit() else -1
        return SegmentRef(number, info.etag, info.size) if info.key == self._key(number) else None
