"""What a table has of a source that reads topics: the offset of each of its rows, and the rows of strangers."""

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.audit.attempts import Key
from blizzard.audit.table_rows import LOST, may_hold_strangers, rows_of_nobody
from blizzard.storage.base import ObjectStore
from blizzard.table.active_files import ActiveFiles
from blizzard.table.added_files import AddedFile
from blizzard.table.row_runs import NO_ROW, rows_of
from blizzard.table.source_column import SourceColumn

FIELDS = ("source", "file", "etag", "row")


@dataclass(slots=True)
class TopicRows:
    """`known`: the sources that are configured for the table; None: nobody asks for rows of others. `offsets`: of all
    rows of the source, NO_ROW of those that have none. `others`: rows of other sources, by source and data file.
    `lost`: data files that cannot be read."""

    state: ObjectStore
    source_id: str
    known: Collection[str] | None = None
    offsets: "dict[Key, array[int]]" = field(default_factory=dict)
    others: list[tuple[str | None, int, str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def read(self, active: ActiveFiles, progress: Callable[[str, int, int], None]) -> None:
        """Errors of storage, except for data files that are lost."""
        files = [file for file in active.files if self._is_wanted(file)]
        for number, file in enumerate(files):
            progress("reading the table", number, len(files))
            path = unquote(file.path)
            try:
                others = self._add_file(file, active.deleted.get(path, ()))
            except LOST:
                self.lost.append(path)
                continue
            self.others += [(source, rows, path) for source, rows in others.items()]

    def _is_wanted(self, file: AddedFile) -> bool:
        known = self.known
        return file.may_hold(self.source_id) or (known is not None and may_hold_strangers(file, known))

    def _add_file(self, file: AddedFile, deleted: Sequence[int]) -> "Counter[str | None]":
        if file.is_nobodys and not deleted:
            return Counter({None: rows_of_nobody(self.state, file)})
        others = Counter[str | None]()
        for rows in rows_of(SourceColumn(self.state, file), self.source_id, FIELDS, deleted, others):
            self._add_rows(rows)
        return others

    def _add_rows(self, rows: pa.Table) -> None:
        paths, etags = (pc.fill_null(rows[name], "") for name in ("file", "etag"))
        offsets = pc.fill_null(rows["row"], NO_ROW)
        for path in pc.unique(paths).to_pylist():
            is_of_path = pc.equal(paths, path)
            for etag in pc.unique(etags.filter(is_of_path)).to_pylist():
                found = offsets.filter(pc.and_(is_of_path, pc.equal(etags, etag)))
                self.offsets.setdefault((path, etag), array("q")).extend(found.to_pylist())


@dataclass(frozen=True, slots=True)
class OffsetCounts:
    """The rows of one partition. `once`: their offsets, ascending, each once. `doubled`: those that are there more than
    once. `forged`: those that no commit can have brought: before `first` or from `end` on."""

    once: pa.Array
    doubled: pa.Array
    forged: pa.Array
    first: int
    end: int

    @property
    def own(self) -> pa.Array:
        """Those that a commit may have brought, ascending."""
        return self.once.filter(self._is_within(self.once))

    def before(self, offsets: "array[int]", end: int) -> int:
        """How many rows of its own there are before an offset."""
        rows = as_array(offsets)
        return pc.sum(pc.and_(self._is_within(rows), pc.less(rows, end))).as_py() or 0

    def _is_within(self, rows: pa.Array) -> pa.Array:
        return pc.and_(pc.greater_equal(rows, self.first), pc.less(rows, self.end))


def count_offsets(offsets: "array[int]", first: int, end: int) -> OffsetCounts:
    """`first` and `end` (exclusive): between them the source has read."""
    counted = pc.value_counts(as_array(offsets))
    values, counts = counted.field("values"), counted.field("counts")
    outside = values.filter(pc.or_(pc.less(values, first), pc.greater_equal(values, end)))
    doubled = values.filter(pc.greater(counts, 1))
    return OffsetCounts(_sorted(values), _sorted(doubled), _sorted(outside), first, end)


def _sorted(offsets: pa.Array) -> pa.Array:
    return offsets.take(pc.sort_indices(offsets))


def as_array(offsets: "array[int]") -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)])
