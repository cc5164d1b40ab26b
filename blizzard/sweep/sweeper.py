"""The sweep: list a source above its watermarks (or, late, below them) and append what no event announced."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from blizzard.errors import RetryableError
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Closing, Entry, FoundBy, SettleMark, Sweep
from blizzard.state.checkpoint import FINISHED, Checkpoint
from blizzard.state.known_files import KnownFiles
from blizzard.state.watermark import SourceProgress, join_path, prefix_of, split_path
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.sweep.late_cursor import Epoch, Ground, LateCursor, Place, Run, listing_of, open_partitions

SEGMENT_ENTRIES = 5_000
"""Entries after which a sweep appends what it has: about 1 MB of JSON."""
EVENT_GRACE_SECS = 300.0
"""How long an event may be on its way, in addition to the settle delay, before its file counts as unannounced."""


class OutOfTime(RetryableError):
    """The deadline came before the first listing: the manifest has more unconsumed segments than could be read."""


class Kind(StrEnum):
    WATERMARK = "watermark"
    LATE = "late"


class Window(Protocol):
    """The dated folders of a source (its `prefix_template` and `lookback`)."""

    def folder_of(self, partition: str) -> str | None:
        """The dated folder that a partition lies in; None if its path does not fit the template."""
        ...

    def floor(self, now_ts: float, lookback: int) -> str:
        """The oldest of the last `lookback` folders, today's included."""
        ...


@dataclass(frozen=True, slots=True)
class SweepRules:
    """A source's settings as far as sweeping needs them. `window` None: every partition stays open.

    `written` is what `matches` and `window` were made of, for sweeps to notice that it has changed.
    """

    matches: Callable[[str], bool]
    window: Window | None = None
    lookback: int = 1
    settle_delay_secs: float = 60.0
    late_overlap_secs: float = 86_400.0
    written: str = field(default="", compare=False)

    def folder_of(self, partition: str) -> str | None:
        return None if self.window is None else self.window.folder_of(partition)

    def before_window(self, now_ts: float) -> str | None:
        """The newest folder that had left the window at `now_ts`; None if nothing ever does."""
        return None if self.window is None else self.window.floor(now_ts, self.lookback + 1)


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What a sweep did. `missed` are entries that it appended: no event had announced them yet."""

    kind: Kind
    started_ts: float
    listed: int
    missed: int
    missed_bytes: int
    partitions: int
    segments: tuple[int, ...]
    complete: bool
    """False when time ran out; the next sweep goes on from the marks of this one, a late one from its `cursor`."""
    unannounced: int = 0
    """Those of `missed` whose event is overdue and hardly comes any more: found by a watermark sweep, older than the
    settle delay and EVENT_GRACE_SECS, and of a time when the source was watched already."""
    cursor: LateCursor | None = None
    """Where a late sweep stopped that is not complete."""


@dataclass(slots=True)
class _Pending:
    """What was found and is not yet appended."""

    entries: list[Entry] = field(default_factory=list)
    marks: list[SettleMark] = field(default_factory=list)
    closing: Closing | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """What a late sweep need not append: what waits for the job, path and etag, and what is committed."""

    waiting: frozenset[tuple[str, str]]
    ingested: KnownFiles

    def holds(self, info: ObjectInfo) -> bool:
        return (info.key, info.etag) in self.waiting or self.ingested.holds(info.key, info.etag)


class Sweeper:
    """One sweep over one source, from a checkpoint that may be stale.

    `clock` is Unix seconds; `deadline_ts` is when to stop listing. Whatever was listed by then is appended, and so is
    what was found each time it comes to `segment_entries`. Raises OutOfTime if there is none left to begin with.
    `watched_since_ts`: when events were first expected of the source; None: not yet, so none can have been lost.
    `still_sweeping` is told the time whenever the clock is looked at, often enough to say that it takes long.
    """

    def __init__(
        self,
        source: ObjectStore,
        manifest: Manifest,
        checkpoint: Checkpoint,
        rules: SweepRules,
        *,
        clock: Callable[[], float],
        writer_id: str,
        deadline_ts: float = float("inf"),
        segment_entries: int = SEGMENT_ENTRIES,
        watched_since_ts: float | None = None,
        still_sweeping: Callable[[float], None] | None = None,
    ) -> None:
        self._source = source
        self._manifest = manifest
        self._checkpoint = checkpoint
        self._rules = rules
        self._clock = clock
        self._writer_id = writer_id
        self._deadline_ts = deadline_ts
        self._segment_entries = segment_entries
        self._still_sweeping = still_sweeping
        self._started_ts = clock()
        overdue_ts = self._started_ts - rules.settle_delay_secs - EVENT_GRACE_SECS
        self._overdue = (float("inf") if watched_since_ts is None else watched_since_ts, overdue_ts)
        self._progress = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
        self._pending_files: set[tuple[str, str]] = set()
        self._relies_on = self._floor = checkpoint.position.segment
        self._chain: str | None = None
        self._run = (checkpoint.position.unbroken_since, checkpoint.position.chain)
        self._read_unconsumed()
        self._pending = _Pending()
        self._segments: list[int] = []
        self._listed = self._missed = self._missed_bytes = self._partitions = self._unannounced = 0

    def _read_unconsumed(self) -> None:
        """Count what is appended and not consumed as known. What this sweep says then rests on those segments."""
        first: int | None = None
        for item in self._manifest.unconsumed(self._checkpoint.position):
            if self._out_of_time():
                raise OutOfTime(
                    f"unconsumed segments beyond {item.segment.number} were not read; the job consumes them"
                )
            first = item.segment.number if first is None else first
            self._rest_on(first, item.segment.number, item.chain)
            self._run = (item.unbroken_since, item.chain)
            self._pending_files.update((entry.path, entry.etag) for entry in item.segment.entries[item.first_entry :])
            if item.segment.sweep is not None and item.marks_are_valid:
                self._progress.apply_sweep(item.segment.sweep)

    def _rest_on(self, first: int, last: int, chain: str | None) -> None:
        """What is appended from now on has a number behind `last`: should the manifest be wiped before that, the gap
        shows that the segments from `first` on were never consumed."""
        self._relies_on, self._floor, self._chain = first, last + 1, chain

    def watermark_sweep(self) -> SweepReport:
        """List each open partition above its watermark; what is older than the settle delay is settled through."""
        first = not self._checkpoint.files and not self._progress.watermarks and self._progress.closed_through is None
        closing = cold_closing(self._progress, self._rules, self._started_ts)
        if closing is not None:
            # Said first: a sweep that is cut short must not leave what lies before the window to the next one.
            self._pending.closing = closing
            self._progress.close_partitions(closing)
        base = self._progress.closed_through
        known = {*self._checkpoint.files, *(path for path, _ in self._pending_files)}
        quiet: dict[str, bool] = {}
        complete = True
        for partition in self._open_partitions():
            if self._out_of_time() or not self._sweep_partition(partition, quiet, known):
                complete = False
                break
        if complete and closing is None:
            closing = self._closing(quiet, base)
        # Where nothing is ingested yet, a late sweep would have found no more than this one.
        first = first and complete and self._progress.late_swept_ts is None
        self._flush(closing=closing if complete else None, late_swept_ts=self._started_ts if first else None)
        return self._report(Kind.WATERMARK, complete=complete)

    def late_sweep(
        self,
        ingested_since: Callable[[float], KnownFiles],
        *,
        announce: bool = True,
        cursor: LateCursor | None = None,
    ) -> SweepReport:
        """List the open partitions whole for what was modified since the last late sweep.

        Also above their watermarks: they may be higher by now than this sweep's checkpoint knows.
        `ingested_since(ts)` gives what is known to be committed at or after `ts`; it only spares the table questions
        and may know nothing. Without `announce` a sweep that finds nothing leaves no trace.
        `cursor` is where the one before ran out of time: the two are one sweep then, that began with the first of them.
        What has changed since in a way that could hide a file makes this one begin anew.
        """
        place, epoch = self._begin_late(cursor)
        since = float("-inf") if epoch.since_ts is None else epoch.since_ts
        known = _Known(self._waiting(), ingested_since(since))
        stopped: Place | None = None
        for partition in self._open_partitions(place.partition):
            after = place.after if partition == place.partition else None
            stopped = self._sweep_whole(Place(partition, after), since, known)
            if stopped is not None:
                break
        says = stopped is None and (announce or bool(self._missed))
        self._flush(late_swept_ts=epoch.started_ts if says else None)
        return self._report(
            Kind.LATE, complete=stopped is None, cursor=None if stopped is None else self._cursor(stopped, epoch)
        )

    def _waiting(self) -> frozenset[tuple[str, str]]:
        """What the job will look at when it consumes it. It drops the entry of a file that counts as finished, whatever
        it holds by now, and may have no reason to commit that."""
        finished = {path for path, read in self._checkpoint.files.items() if read == FINISHED}
        return frozenset((path, etag) for path, etag in self._pending_files if path not in finished)

    def _begin_late(self, cursor: LateCursor | None) -> tuple[Place, Epoch]:
        """Where to begin, and the sweep that this one is a part of."""
        previous, closed_through = self._progress.late_swept_ts, self._progress.closed_through
        since_ts = None if previous is None else previous - self._rules.late_overlap_secs
        listing = listing_of(self._source, self._rules.written)
        epoch = Epoch(self._started_ts, since_ts, listing, closed_through)
        run = Run(self._run[0], self._floor - 1, self._run[1])
        if cursor is None or not (cursor.epoch.goes_on(epoch, self._progress) and run.holds(cursor.ground)):
            return Place(), epoch
        return cursor.place, replace(cursor.epoch, closed_through=closed_through)

    def _cursor(self, place: Place, epoch: Epoch) -> LateCursor:
        return LateCursor(place, epoch, Ground(self._relies_on, self._floor - 1, self._run[1]))

    def _out_of_time(self) -> bool:
        now_ts = self._clock()
        if self._still_sweeping is not None:
            self._still_sweeping(now_ts)
        return now_ts >= self._deadline_ts

    def _open_partitions(self, start: str = "") -> Iterator[str]:
        for partition in open_partitions(self._source, self._progress, start):
            self._partitions += 1
            yield partition

    def _sweep_partition(self, partition: str, quiet: dict[str, bool], known: Collection[str]) -> bool:
        """List one partition above its watermark. False when time ran out."""
        base = through = self._progress.watermarks.get(partition)
        calm, found = True, False
        for info in self._list(partition, after=base):
            if self._out_of_time():
                self._mark(partition, base, through)
                return False
            calm = calm and info.modified_ts <= self._started_ts - self._rules.settle_delay_secs
            name = split_path(info.key)[1]
            through = name if calm else through
            found = self._offer(info, known) or found
            if len(self._pending.entries) >= self._segment_entries:
                self._mark(partition, base, through)
                base = through
                self._flush()
        self._mark(partition, base, through)
        quiet[partition] = calm and not found
        return True

    def _sweep_whole(self, place: Place, since: float, known: "_Known") -> Place | None:
        """Take what was modified since; the etag tells a file that was overwritten from one that is known.

        How far it came when time ran out, None when it did not.
        """
        if self._out_of_time():
            return place
        for info in self._list(place.partition, after=place.after):
            if self._out_of_time():
                return place
            if info.modified_ts >= since and self._rules.matches(info.key) and not known.holds(info):
                self._take(info, FoundBy.LATE)
            if len(self._pending.entries) >= self._segment_entries:
                self._flush()
            place = Place(place.partition, split_path(info.key)[1])
        return None

    def _list(self, partition: str, *, after: str | None) -> Iterator[ObjectInfo]:
        start_after = join_path(partition, after) if after is not None else ""
        for info in self._source.list(prefix_of(partition), start_after=start_after, recursive=False):
            self._listed += 1
            yield info

    def _offer(self, info: ObjectInfo, known: Collection[str]) -> bool:
        """Take the object unless it is known or none of ours; whether it was taken."""
        if not self._rules.matches(info.key) or info.key in known:
            return False
        self._take(info, FoundBy.SWEEP)
        since_ts, until_ts = self._overdue
        self._unannounced += since_ts <= info.modified_ts <= until_ts
        return True

    def _take(self, info: ObjectInfo, found_by: FoundBy) -> None:
        self._pending.entries.append(entry_of(info, found_by))
        self._missed += 1
        self._missed_bytes += info.size

    def _mark(self, partition: str, base: str | None, through: str | None) -> None:
        if through is not None and through != base:
            self._pending.marks.append(SettleMark(partition, base, through))

    def _flush(self, *, closing: Closing | None = None, late_swept_ts: float | None = None) -> None:
        """Append what is pending; a segment that would say nothing is not written."""
        pending, self._pending = self._pending, _Pending()
        closing = closing or pending.closing
        if not (pending.entries or pending.marks or closing or late_swept_ts is not None):
            return
        sweep = Sweep(tuple(pending.marks), closing, late_swept_ts, self._relies_on, self._chain)
        number = self._manifest.append(
            pending.entries, writer_id=self._writer_id, now_ts=self._clock(), sweep=sweep, floor=self._floor
        )
        self._rest_on(min(self._relies_on, number), number, self._chain)
        self._segments.append(number)

    def _closing(self, quiet: dict[str, bool], base: str | None) -> Closing | None:
        """Close the dated partitions that were before the window when the last late sweep began, up to the first that
        is not quiet: a late sweep has then seen whatever came while they were in the window."""
        late_ts = self._progress.late_swept_ts
        through = None if late_ts is None else self._rules.before_window(late_ts)
        if through is None:
            return None
        folders = {partition: self._rules.folder_of(partition) for partition in quiet}
        restless = [f for p, f in folders.items() if f is not None and f <= through and not quiet[p]]
        dated = {f for f in folders.values() if f is not None and f <= through}
        ready = [f for f in dated if not restless or f < min(restless)]
        return Closing(base, max(ready)) if ready else None

    def _report(self, kind: Kind, *, complete: bool, cursor: LateCursor | None = None) -> SweepReport:
        return SweepReport(
            kind,
            self._started_ts,
            self._listed,
            self._missed,
            self._missed_bytes,
            self._partitions,
            tuple(self._segments),
            complete,
            self._unannounced,
            cursor,
        )


def cold_closing(progress: SourceProgress, rules: SweepRules, now_ts: float) -> Closing | None:
    """What a source begins with that has a window: the last `lookback` folders; what is older counts as closed."""
    through = rules.before_window(now_ts)
    closing = None if through is None else Closing(None, through, cold=True)
    return closing if closing is not None and progress.connects(closing) else None


def entry_of(info: ObjectInfo, found_by: FoundBy) -> Entry:
    return Entry(info.key, info.size, info.etag, info.modified_ts, found_by, info.version_id)
