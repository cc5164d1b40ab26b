"""A sweep lists a source and appends files that no event announced.

A watermark sweep lists files above the watermarks, and of unordered partitions also those below them. A late sweep
looks at all files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from blizzard.errors import RetryableError
from blizzard.ledger.run_index import PartitionStats
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Closing, FoundBy, SettleMark, Sweep
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.watermark import SourceProgress, join_path, prefix_of, split_path
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.sweep.folders import QuietFolders, open_partitions, quiet_folders
from blizzard.sweep.found import Pending, entry_of
from blizzard.sweep.inventory import LOOKUP_FILES as INVENTORY_LOOKUP_FILES
from blizzard.sweep.inventory import InventoryReader
from blizzard.sweep.late_cursor import (
    LateCursor,
    LateSweepScope,
    ListingPosition,
    RequiredSegments,
    UnbrokenSegments,
    listing_fingerprint,
)
from blizzard.sweep.report import SweepKind, SweepReport
from blizzard.sweep.rules import SweepRules, cold_closing
from blizzard.sweep.searches import LateSearch, NewFiles, Unsettled
from blizzard.sweep.unordered import LOOKUP_FILES, UnorderedListing, UnorderedReport, UnorderedSearch

SEGMENT_ENTRIES = 5_000
"""A sweep appends a segment whenever it has found this many files: about 1 MB of JSON."""
EVENT_GRACE_SECS = 300.0
"""For this long after the settle delay an event may still arrive. After that its file counts as unannounced."""


class OutOfTime(RetryableError):
    """The deadline passed before the first listing, since the manifest has too many unconsumed segments."""


class Sweeper:
    """One sweep over one source, from a checkpoint that may be outdated.

    `clock` gives Unix seconds. Listing stops at `deadline_ts`; files found by then are still appended. A segment is
    appended whenever `segment_entries` entries were found. `watched_since_ts`: since when events are expected for the
    source (None: not yet, so no event can be overdue). `still_sweeping` is called with the current time whenever the
    clock is read. `partitions`: what the ledger knows of a source with many folders, so that quiet ones can be left out
    (None: none are). Raises OutOfTime if the deadline passes before the first listing.
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
        partitions: Mapping[str, PartitionStats] | None = None,
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
        self._known = partitions
        self._quiet: QuietFolders | None = None
        self.started_ts = clock()
        overdue_ts = self.started_ts - rules.settle_delay_secs - EVENT_GRACE_SECS
        self._overdue_range = (float("inf") if watched_since_ts is None else watched_since_ts, overdue_ts)
        self._progress = SourceProgress.from_checkpoint(checkpoint, rules.folder_of)
        self._unconsumed: set[tuple[str, str]] = set()
        self._relies_on = self._floor = checkpoint.position.segment
        self._chain: str | None = None
        self._unbroken = (checkpoint.position.unbroken_since, checkpoint.position.chain)
        self._read_unconsumed()
        self._pending = Pending()
        self._segments: list[int] = []
        self._listed = self._missed = self._missed_bytes = self._partitions = self._unannounced = 0

    def _read_unconsumed(self) -> None:
        """Count the files of unconsumed entries as known. The sweep then relies on the segments of these entries."""
        first: int | None = None
        for item in self._manifest.unconsumed(self._checkpoint.position):
            if self._out_of_time():
                raise OutOfTime(
                    f"unconsumed segments after {item.segment.number} were not read before the deadline; "
                    "nothing was listed. The job consumes these segments; sweep again after that."
                )
            first = item.segment.number if first is None else first
            self._rely_on_segments(first, item.segment.number, item.chain)
            self._unbroken = (item.unbroken_since, item.chain)
            self._unconsumed.update((entry.path, entry.etag) for entry in item.segment.entries[item.first_entry :])
            if item.segment.sweep is not None and item.marks_are_valid:
                self._progress.apply_sweep(item.segment.sweep)

    def _rely_on_segments(self, first: int, last: int, chain: str | None) -> None:
        """Later segments of this sweep get numbers above `last`. If the manifest is deleted before they are appended,
        the gap in the numbers shows that the segments from `first` on were never consumed."""
        self._relies_on, self._floor, self._chain = first, last + 1, chain

    def watermark_sweep(self, unsettled: Unsettled, unordered: UnorderedSearch | None = None) -> SweepReport:
        """List each open partition above its watermark, which may then move past files older than the settle delay, and
        some of the unordered partitions up to it. `unsettled` leaves out files of which any content is settled: late
        sweeps find overwritten ones."""
        progress = self._progress
        self._quiet = quiet_folders(
            self._known, self._unconsumed, self._rules, now_ts=self.started_ts, due_since_ts=float("inf")
        )
        first = self._checkpoint.sequence < 0 and not progress.watermarks and progress.closed_through is None
        closing = cold_closing(progress, self._rules, self.started_ts)
        if closing is not None:
            # Stored with the first segment: if this sweep runs out of time, the next must not list these partitions.
            self._pending.closing = closing
            progress.close_partitions(closing)
        closed_before = progress.closed_through
        search = NewFiles({*self._checkpoint.files, *(path for path, _ in self._unconsumed)}, unsettled)
        quiet, complete = dict[str, bool](), True
        for partition in self._open_partitions():
            if self._out_of_time() or not self._list_above_watermark(partition, quiet, search):
                complete = False
                break
        if complete and closing is None:
            closing = self._close_quiet_partitions(quiet, closed_before)
        # If nothing is ingested yet, a late sweep would find the same files as this sweep.
        counts_as_late = first and complete and progress.late_swept_ts is None
        self._append_segment(
            closing=closing if complete else None, late_swept_ts=self.started_ts if counts_as_late else None
        )
        active, idle = self._list_unordered(unordered) if complete and unordered is not None else (None, None)
        report = self._report(SweepKind.WATERMARK, complete=complete)
        return replace(report, counts_as_late=counts_as_late, unordered=active, unordered_idle=idle)

    def _list_unordered(self, wanted: UnorderedSearch) -> tuple[UnorderedReport, UnorderedReport]:
        """Append what unordered partitions have below their watermarks. That settles nothing: no mark begins there.
        Returns the reports of active and of idle ones."""
        search = LateSearch(self._late_since_ts(), self._unconsumed, wanted.unsettled)
        listing = UnorderedListing(
            wanted, self._progress, lambda partition, after: self._list(partition, after=after), self._out_of_time
        )
        for info in listing.files():
            if search.may_be_late(info) and self._rules.matches(info.key):
                search.found.append(info)
            if len(search.found) >= LOOKUP_FILES:
                self._add_unsettled(search, FoundBy.SWEEP)
        self._add_unsettled(search, FoundBy.SWEEP)
        self._append_segment()
        return listing.active, listing.idle

    def late_sweep(
        self,
        unsettled: Unsettled,
        *,
        record_if_empty: bool = True,
        cursor: LateCursor | None = None,
    ) -> SweepReport:
        """List all files of the open partitions and append those modified since the last late sweep.

        Files above the watermarks count too, since the watermarks may have moved past what this sweep's checkpoint
        knows. `unsettled` leaves out files whose content is settled. It may leave out none: the job looks up those that
        are appended. `record_if_empty`: whether a sweep that finds nothing still appends a segment with its time.

        `cursor` is where the previous late sweep ran out of time. This one resumes there, and both count as one sweep
        that started with the first. It starts over if anything changed since that could hide a file.
        """
        listing = listing_fingerprint(self._source, self._rules.definition)
        position, scope = self._resume_or_start(cursor, self.started_ts, listing)
        search = LateSearch(scope.since_ts, self._unconsumed, unsettled)
        self._quiet = quiet_folders(
            self._known, self._unconsumed, self._rules, now_ts=scope.started_ts, due_since_ts=self.late_swept_ts
        )
        stopped: ListingPosition | None = None
        for partition in self._open_partitions(position.partition):
            after = position.after if partition == position.partition else None
            stopped = self._list_whole_partition(ListingPosition(partition, after), search)
            if stopped is not None:
                break
        self._add_unsettled(search, FoundBy.LATE)
        return self._end_late_sweep(scope, stopped, record_if_empty=record_if_empty)

    def inventory_sweep(
        self,
        reader: InventoryReader,
        unsettled: Unsettled,
        *,
        record_if_empty: bool = True,
        cursor: LateCursor | None = None,
    ) -> SweepReport:
        """A late sweep that reads an inventory report instead of listing the source. It covers the files up to the
        report's time. Nothing is read if an earlier late sweep covers that time. Raises UnusableInventory; files that
        were found before are appended by the next sweep of this object."""
        inventory = reader.inventory
        if self.late_swept_ts is not None and inventory.started_ts <= self.late_swept_ts:
            return self._report(SweepKind.LATE, complete=True, inventory=inventory.name)
        listing = listing_fingerprint(self._source, f"{self._rules.definition}\n{inventory.name}")
        position, scope = self._resume_or_start(cursor, inventory.started_ts, listing)
        search = LateSearch(scope.since_ts, self._unconsumed, unsettled)
        stopped: ListingPosition | None = position
        for page in reader.pages(position, search.since_ts):
            if self._out_of_time():
                break
            self._listed += page.rows
            search.found += [info for info in page.files if search.may_be_late(info) and self._is_open(info.key)]
            if len(search.found) >= INVENTORY_LOOKUP_FILES:
                self._add_unsettled(search, FoundBy.LATE)
            stopped = page.end
        else:
            stopped = None
        self._add_unsettled(search, FoundBy.LATE)
        return self._end_late_sweep(scope, stopped, record_if_empty=record_if_empty, inventory=inventory.name)

    def _is_open(self, path: str) -> bool:
        """Whether a sweep may append the file."""
        return self._rules.matches(path) and not self._progress.is_closed(split_path(path)[0])

    @property
    def late_swept_ts(self) -> float | None:
        """As in Checkpoint, with the sweeps that the job has not consumed yet."""
        return self._progress.late_swept_ts

    def _end_late_sweep(
        self,
        scope: LateSweepScope,
        stopped: ListingPosition | None,
        *,
        record_if_empty: bool,
        inventory: str | None = None,
    ) -> SweepReport:
        complete = stopped is None and (record_if_empty or bool(self._missed))
        self._append_segment(late_swept_ts=scope.started_ts if complete else None)
        return self._report(
            SweepKind.LATE,
            complete=stopped is None,
            cursor=None if stopped is None else self._cursor(stopped, scope),
            inventory=inventory,
        )

    def _late_since_ts(self) -> float | None:
        """Files that are older were found by an earlier late sweep; None: there was none. A folder that was quiet until
        just now may not have been visited for so long as quiet folders are left out."""
        previous, left_out_secs = self._progress.late_swept_ts, self._rules.left_out_secs if self._known else 0.0
        return None if previous is None else previous - self._rules.late_overlap_secs - left_out_secs

    def _resume_or_start(
        self, cursor: LateCursor | None, started_ts: float, listing: str
    ) -> tuple[ListingPosition, LateSweepScope]:
        """Resume the late sweep of `cursor` if it is still valid, else start a new one."""
        closed_through = self._progress.closed_through
        scope = LateSweepScope(started_ts, self._late_since_ts(), listing, closed_through)
        unbroken = UnbrokenSegments(self._unbroken[0], self._floor - 1, self._unbroken[1])
        if cursor is None or not (cursor.scope.can_resume(scope, self._progress) and unbroken.covers(cursor.required)):
            return ListingPosition(), scope
        return cursor.position, replace(cursor.scope, closed_through=closed_through)

    def _cursor(self, position: ListingPosition, scope: LateSweepScope) -> LateCursor:
        return LateCursor(position, scope, RequiredSegments(self._relies_on, self._floor - 1, self._unbroken[1]))

    def _out_of_time(self) -> bool:
        now_ts = self._clock()
        if self._still_sweeping is not None:
            self._still_sweeping(now_ts)
        return now_ts >= self._deadline_ts

    def _open_partitions(self, start: str = "") -> Iterator[str]:
        for partition in open_partitions(self._source, self._progress, start, self._quiet):
            self._partitions += 1
            yield partition

    def _list_above_watermark(self, partition: str, quiet: dict[str, bool], search: NewFiles) -> bool:
        """List one partition above its watermark. False if time ran out. `quiet` gets whether the partition has neither
        new nor recently modified files."""
        base = through = self._progress.watermarks.get(partition)
        all_old, found, complete = True, False, True
        for info in self._list(partition, after=base):
            if self._out_of_time():
                complete = False
                break
            all_old = all_old and info.modified_ts <= self.started_ts - self._rules.settle_delay_secs
            through = split_path(info.key)[1] if all_old else through
            if self._rules.matches(info.key):
                search.collect(info)
            if len(search.collected) >= self._segment_entries:
                found = self._add_new_files(search) or found
                self._add_mark(partition, base, through)
                base = through
                self._append_segment()
        found = self._add_new_files(search) or found
        self._add_mark(partition, base, through)
        quiet[partition] = all_old and not found
        return complete

    def _add_new_files(self, search: NewFiles) -> bool:
        """Add those of the collected files that are new. Returns whether there are any."""
        new = search.take()
        for info in new:
            self._add_entry(info, FoundBy.SWEEP)
        return bool(new)

    def _list_whole_partition(self, position: ListingPosition, search: LateSearch) -> ListingPosition | None:
        """Collect the files that may be late. Returns how far the listing came if time ran out, else None."""
        if self._out_of_time():
            return position
        # The last visit of a quiet folder was long before the last late sweep.
        is_quiet = self._quiet is not None and self._quiet.is_quiet(prefix_of(position.partition))
        for info in self._list(position.partition, after=position.after):
            if self._out_of_time():
                return position
            if search.may_be_late(info, at_any_time=is_quiet) and self._rules.matches(info.key):
                search.found.append(info)
            if len(search.found) >= self._segment_entries:
                self._add_unsettled(search, FoundBy.LATE)
            position = ListingPosition(position.partition, split_path(info.key)[1])
        return None

    def _add_unsettled(self, search: LateSearch, found_by: FoundBy) -> None:
        """Append those of the collected files that are not settled."""
        for info in search.take():
            self._add_entry(info, found_by)
            if len(self._pending.entries) >= self._segment_entries:
                self._append_segment()

    def _list(self, partition: str, *, after: str | None) -> Iterator[ObjectInfo]:
        start_after = join_path(partition, after) if after is not None else ""
        for info in self._source.list(prefix_of(partition), start_after=start_after, recursive=False):
            self._listed += 1
            yield info

    def _add_entry(self, info: ObjectInfo, found_by: FoundBy) -> None:
        self._pending.entries.append(entry_of(info, found_by))
        self._missed += 1
        self._missed_bytes += info.size
        since_ts, until_ts = self._overdue_range
        self._unannounced += found_by is FoundBy.SWEEP and since_ts <= info.modified_ts <= until_ts

    def _add_mark(self, partition: str, base: str | None, through: str | None) -> None:
        if through is not None and through != base:
            self._pending.marks.append(SettleMark(partition, base, through))

    def _append_segment(self, *, closing: Closing | None = None, late_swept_ts: float | None = None) -> None:
        """Append what is pending. Nothing is written if the segment would be empty."""
        pending, self._pending = self._pending, Pending()
        closing = closing or pending.closing
        if not (pending.entries or pending.marks or closing or late_swept_ts is not None):
            return
        sweep = Sweep(tuple(pending.marks), closing, late_swept_ts, self._relies_on, self._chain)
        number = self._manifest.append(
            pending.entries, writer_id=self._writer_id, now_ts=self._clock(), sweep=sweep, floor=self._floor
        )
        self._rely_on_segments(min(self._relies_on, number), number, self._chain)
        self._segments.append(number)

    def _close_quiet_partitions(self, quiet: dict[str, bool], closed_before: str | None) -> Closing | None:
        """Close the dated partitions that had left the window when the last late sweep started, up to the first one
        that is not quiet. A late sweep has seen all files that arrived while they were in the window."""
        late_ts = self._progress.late_swept_ts
        through = None if late_ts is None else self._rules.before_window(late_ts)
        if through is None:
            return None
        folders = {partition: self._rules.folder_of(partition) for partition in quiet}
        not_quiet = [f for p, f in folders.items() if f is not None and f <= through and not quiet[p]]
        dated = {f for f in folders.values() if f is not None and f <= through}
        ready = [f for f in dated if not not_quiet or f < min(not_quiet)]
        return Closing(closed_before, max(ready)) if ready else None

    def _report(
        self,
        kind: SweepKind,
        *,
        complete: bool,
        cursor: LateCursor | None = None,
        inventory: str | None = None,
    ) -> SweepReport:
        quiet = 0 if self._quiet is None else self._quiet.left_out
        return SweepReport(
            kind,
            self.started_ts,
            self._listed,
            self._missed,
            self._missed_bytes,
            self._partitions + quiet,
            tuple(self._segments),
            complete,
            self._unannounced,
            cursor,
            quiet=quiet,
            inventory=inventory,
        )
