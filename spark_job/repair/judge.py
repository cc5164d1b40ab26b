"""Decides, before anything is read, which items can be read once more: from the ledger, the table's rows, and the
source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.manifest.segments import FoundBy
from blizzard.state.batch import OnOverwrite, PlannedFile
from blizzard.state.checkpoint import Checkpoint
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.heads import heads
from spark_job.ports.table import FileTable, FileVersion
from spark_job.repair.put_back import PutBack
from spark_job.repair.work import Fate, Item, Kind, Result, Work

PARALLEL_HEADS = 16
REPLACE = "`blizzard replace --path` reads it anew"


@dataclass(frozen=True, slots=True)
class Chosen:
    """An item that is read. `replaces`: whether its rows take the place of others. `present`: numbers of wanted records
    that a commit has brought already. `expected_records`: how many its content had when it was ingested; None:
    not known. `repairs`: the sequence of the newest commit that has the file; None: none has."""

    item: Item
    file: PlannedFile
    replaces: bool = False
    present: tuple[int, ...] = ()
    expected_records: int | None = None
    repairs: int | None = None


class Judge:
    """Of one source. `clock` gives Unix seconds."""

    def __init__(
        self,
        *,
        table: FileTable[Any],
        ledger: LedgerKeeper,
        files: ObjectStore,
        on_overwrite: OnOverwrite,
        put_back: PutBack,
        clock: Callable[[], float],
    ) -> None:
        self._put_back = put_back
        self._table = table
        self._ledger = ledger
        self._files = files
        self._on_overwrite = on_overwrite
        self._clock = clock

    def choose(self, checkpoint: Checkpoint, items: Sequence[Item], work: Work) -> Sequence[Chosen]:
        """Those of the items that are read; ends the others. All are of one kind."""
        entries = self._ledger.find(checkpoint, [item.path for item in items])
        wanted = {item.path: {*item.records, *item.open_letters} for item in items if item.kind is not Kind.REPLACE}
        present = self._table.rows_present(wanted)
        now = heads(self._files, [item.path for item in items], at_once=PARALLEL_HEADS)
        facts = _Facts(checkpoint, entries, present, now, self._of_nobody(checkpoint))
        chosen = []
        for item in items:
            verdict = self._verdict(item, facts)
            if isinstance(verdict, Result):
                work.end(verdict)
            else:
                entry = entries.get(item.path)
                chosen.append(replace(verdict, repairs=None if entry is None else entry.sequence))
        return chosen

    def _of_nobody(self, checkpoint: Checkpoint) -> bool:
        """Whether the table has rows of the first Blizzard, which do not name their files."""
        return checkpoint.before_ledger_ts is not None and self._table.holds_rows_of_nobody()

    def _verdict(self, item: Item, facts: "_Facts") -> Chosen | Result:
        if item.path in facts.checkpoint.in_progress:
            return _held(
                item, "it is larger than a batch and is being read; repeat this when it is ingested to its end"
            )
        if item.is_of_records:
            return self._records(item, facts)
        if facts.of_nobody and item.path not in facts.entries:
            return _held(item, "the table may have its rows from the first Blizzard, which do not name their file")
        return self._replaced(item, facts) if item.kind is Kind.REPLACE else self._file(item, facts)

    def _replaced(self, item: Item, facts: "_Facts") -> Chosen | Result:
        info = facts.heads[item.path]
        if info is None:
            return _held(item, "the source no longer has it")
        return Chosen(item, _whole(info), replaces=True)

    def _file(self, item: Item, facts: "_Facts") -> Chosen | Result:
        entry, info = facts.entries.get(item.path), facts.heads[item.path]
        etag = item.etag or ("" if info is None else info.etag)  # a file that was never opened has none in its letter
        done = entry if entry is not None and entry.is_done and not entry.is_from_table else None
        if done is not None and done.etag == etag:
            return Result(item, Fate.IN_ALREADY, sequence=done.sequence)
        if info is None:
            return _held(item, "the source no longer has it")
        if done is not None and done.etag == info.etag:
            return Result(item, Fate.SUPERSEDED, "its content of now is in the table", sequence=done.sequence)
        if info.etag != etag:
            return _held(item, f"the source has other content now, with etag {info.etag}: {REPLACE}")
        contents = facts.contents(item.path)
        others = contents - {etag}
        if others and self._on_overwrite is not OnOverwrite.REPLACE:
            return _held(
                item,
                f"the table has its rows of before it was overwritten (on_overwrite: {self._on_overwrite}): {REPLACE}",
            )
        return Chosen(item, _whole(info), replaces=bool(contents))

    def _records(self, item: Item, facts: "_Facts") -> Chosen | Result:
        entry, info = facts.entries.get(item.path), facts.heads[item.path]
        if entry is None:
            return _held(item, "no commit of this table has the file")
        if entry.etag != item.etag:
            what = "the table has other content of this file now"
            if not entry.is_done or item.kind is Kind.GIVEN or item.etag in facts.contents(item.path):
                return _held(item, f"{what}: {REPLACE}")
            return Result(item, Fate.SUPERSEDED, what, sequence=entry.sequence)
        if entry.state is FileState.FAILED:
            return _held(item, "the file was refused as a whole: replay that letter")
        in_table = facts.present.get(FileVersion(item.path, item.etag), frozenset())
        present = tuple(sorted(in_table.intersection(item.records) | item.settled_at(facts.checkpoint.sequence)))
        left = tuple(number for number in item.records if number not in present)
        if not left:
            return Result(item, Fate.IN_ALREADY, settled=present)
        if (result := self._deleted_since(item, entry, in_table)) is not None:
            return result
        if item.kind is Kind.GIVEN:
            given = tuple((number, item.given[number]) for number in left)
            modified_ts = self._clock() if info is None else info.modified_ts
            file = PlannedFile(
                item.path,
                entry.size,
                0.0,
                FoundBy.EVENT,
                expected_etag=item.etag,
                given=given,
                modified_ts=modified_ts,
            )
            return Chosen(item, file, present=present)
        if info is None or info.etag != item.etag:
            what = "no longer has it" if info is None else f"has other content now, with etag {info.etag}"
            return _held(item, f"the source {what}: give the repaired records with --records")
        file = PlannedFile(item.path, info.size, 0.0, FoundBy.EVENT, expected_etag=item.etag, records=left)
        expected = entry.rows + entry.rejected if entry.is_done and not entry.is_from_table else None
        return Chosen(item, file, present=present, expected_records=expected)

    def _deleted_since(self, item: Item, entry: LedgerEntry, in_table: frozenset[int]) -> Result | None:
        """Of records that may have been put back, and deleted since: they do not come back."""
        if not entry.is_done or entry.is_from_table:  # nobody has counted its refused records
            return None
        looking = item.open_letters - in_table
        unseen = len(looking) - entry.rejected
        gone = self._put_back.count(entry, unseen=unseen, present=len(item.open_letters) - len(looking))
        if not gone:
            return None
        if gone >= len(looking):
            return Result(item, Fate.IN_ALREADY, settled=item.records)
        return _held(
            item,
            f"{gone:,} of the {len(looking):,} records with open letters were put back by an earlier commit, and "
            f"somebody has deleted their rows since, but nobody knows which ones: {REPLACE}, deleted rows included",
        )


@dataclass(frozen=True, slots=True)
class _Facts:
    checkpoint: Checkpoint
    entries: Mapping[str, LedgerEntry]
    present: Mapping[FileVersion, frozenset[int]]
    heads: Mapping[str, ObjectInfo | None]
    of_nobody: bool

    def contents(self, path: str) -> set[str]:
        """The etags of which the table has rows."""
        return {content.etag for content in self.present if content.path == path}


def _whole(info: ObjectInfo) -> PlannedFile:
    return PlannedFile(info.key, info.size, info.modified_ts, FoundBy.EVENT, expected_etag=info.etag)


def _held(item: Item, reason: str) -> Result:
    return Result(item, Fate.HELD, reason)
