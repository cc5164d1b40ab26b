"""One pack: a Parquet file whose row groups are sorted by path. Making it, and finding files in it.

    row group 0 │ row group 1 │ … │ footer

The footer has a digest of each row group, and the index of packs one of the footer: a pack that is torn, or not the one
that the checkpoint leads to, is recognised by the parts that are read.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from blizzard.errors import UnreadableState
from blizzard.history.packs import PackRef, digest_of
from blizzard.log import first_line
from blizzard.state.delta_log import Commit
from blizzard.state.receipts import Receipt, ReceiptLine
from blizzard.storage import json_fields
from blizzard.storage.base import ObjectStore
from blizzard.storage.ranged_file import RangedFile

GROUP_ROWS = 4_096
"""Some 230 KB for S3's names and etags: what a question about one file reads."""
FOOTER_BYTES = 64 << 10
"""What pyarrow reads of the end of a file at first, to find the footer there."""
HELD_BYTES = 8 << 20
"""Row groups that follow each other are fetched together, up to this size."""
_DIGESTS = "blizzard.digests"
_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    str | None: pa.string(),
    int: pa.int64(),
    int | None: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
_OF_A_LINE = {name: _TYPES[kind] for name, kind in get_type_hints(ReceiptLine).items()}
_OF_A_COMMIT = {
    "sequence": pa.int64(),
    "receipt": pa.string(),
    "written_ts": pa.float64(),
    "table_version": pa.int64(),
    "committed_ts": pa.float64(),
}
SCHEMA = pa.schema({**_OF_A_LINE, **_OF_A_COMMIT})
_REPEATED = [
    *(name for name, kind in get_type_hints(ReceiptLine).items() if kind in (str | None, int | None)),
    *_OF_A_COMMIT,
]
"""Columns of few different values. A dictionary makes the others larger."""


class PackedLine(NamedTuple):
    """What a commit says of a file. `table_version` and `committed_ts`: of the commit in the table's log; None if the
    log did not have it any more when it was packed."""

    line: ReceiptLine
    sequence: int
    receipt: str
    written_ts: float
    table_version: int | None
    committed_ts: float | None


@dataclass(frozen=True, slots=True)
class EncodedPack:
    """The bytes of a pack, and what its PackRef has to know of them."""

    data: bytes
    files: int
    footer_at: int
    digest: str


def rows_of(receipt: Receipt, commit: Commit | None) -> pa.Table:
    """The lines of a receipt as rows, with their commit in the table's log."""
    lines = [*zip(*receipt.lines, strict=True)] or [()] * len(_OF_A_LINE)
    columns = [pa.array(values, kind) for values, kind in zip(lines, _OF_A_LINE.values(), strict=True)]
    version, committed_ts = (None, None) if commit is None else (commit.version, commit.committed_ts)
    of_commit = (receipt.sequence, receipt.name, receipt.written_ts, version, committed_ts)
    count = len(receipt.lines)
    for value, kind in zip(of_commit, _OF_A_COMMIT.values(), strict=True):
        columns.append(pa.repeat(pa.scalar(value, kind), count))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def encode_pack(tables: Sequence[pa.Table]) -> EncodedPack:
    """Of the rows of neighbouring commits, at least one. Equal rows give equal bytes."""
    rows = pa.concat_tables(tables).combine_chunks()
    rows = rows.take(pc.sort_indices(rows, sort_keys=[("path", "ascending"), ("sequence", "ascending")]))
    sink, digests = BytesIO(), list[str]()
    writer = pq.ParquetWriter(sink, SCHEMA, compression="zstd", use_dictionary=_REPEATED, write_statistics=["path"])
    begin = sink.tell()
    for first in range(0, len(rows), GROUP_ROWS):
        writer.write_table(rows.slice(first, GROUP_ROWS), row_group_size=GROUP_ROWS)
        end = sink.tell()
        sink.seek(begin)
        digests.append(digest_of(sink.read()))
        begin = end
    writer.add_key_value_metadata({_DIGESTS: json.dumps(digests)})
    writer.close()
    data = sink.getvalue()
    return EncodedPack(data, len(rows), begin, digest_of(data[begin:]))


class Pack:
    """Opens the pack with one request. Raises UnreadableState for one that is damaged, here and while it is read, and
    NotFound or StorageError."""

    def __init__(self, store: ObjectStore, folder: str, ref: PackRef) -> None:
        self._ref = ref
        tail_bytes = max(FOOTER_BYTES, ref.size - ref.footer_at)
        self._data = RangedFile(store, folder + ref.name, ref.size, tail_bytes=tail_bytes)
        with self._naming_the_pack():
            self._check(ref.footer_at, ref.size, ref.digest)
            self._file = pq.ParquetFile(self._data, pre_buffer=False)
            metadata = self._file.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            self._digests = json_fields.texts(json.loads(metadata.metadata[_DIGESTS.encode()]))
            self._starts = [*map(_start, groups), ref.footer_at]
            self._ranges = [*map(_range_of_paths, groups)]

    def check(self) -> None:
        """Reads all of it. Raises UnreadableState if a part is damaged."""
        for number, digest in enumerate(self._digests):
            with self._naming_the_pack():
                self._check(self._starts[number], self._starts[number + 1], digest)

    def find(self, wanted: Iterable[tuple[str, int]]) -> Iterator[PackedLine]:
        """What these commits say of these files (path and sequence), as far as it is in the pack."""
        pairs = {*wanted}
        paths = sorted({path for path, _ in pairs})
        of_interest = pa.array(paths, pa.string())
        for groups in self._reads(paths):
            with self._naming_the_pack(), self._data.held(self._starts[groups.start], self._starts[groups.stop]):
                for number in groups:
                    self._check(self._starts[number], self._starts[number + 1], self._digests[number])
                rows = self._file.read_row_groups([*groups], use_threads=False)
                found = rows.filter(pc.is_in(rows["path"], of_interest)).to_pylist()
            yield from (_packed(row) for row in found if (row["path"], row["sequence"]) in pairs)

    def _reads(self, paths: Sequence[str]) -> Iterator[range]:
        """The row groups that may have one of these paths (sorted), those together that one request fetches."""
        first = last = -1
        for number, (low, high) in enumerate(self._ranges):
            at = bisect_left(paths, low)
            if at == len(paths) or (high is not None and paths[at] > high):
                continue
            if last == number - 1 and first >= 0 and self._starts[number + 1] - self._starts[first] <= HELD_BYTES:
                last = number
                continue
            if first >= 0:
                yield range(first, last + 1)
            first = last = number
        if first >= 0:
            yield range(first, last + 1)

    def _check(self, start: int, end: int, digest: str) -> None:
        self._data.seek(start)
        if digest_of(self._data.read(end - start)) != digest:
            raise ValueError("its content is not that of its name")

    @contextmanager
    def _naming_the_pack(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, *json_fields.MALFORMED) as error:
            raise UnreadableState(
                f"pack {self._ref.name} of the history cannot be read ({type(error).__name__}: "
                f"{first_line(str(error))}). Nothing is lost: receipts say the same. Delete it, and a later run packs "
                "them again."
            ) from error


def _packed(row: dict[str, Any]) -> PackedLine:
    line = ReceiptLine(**{name: row[name] for name in _OF_A_LINE if name in row})
    return PackedLine(line, **{name: row[name] for name in _OF_A_COMMIT})


def _start(group: pq.RowGroupMetaData) -> int:
    pages = group.column(0)
    return int(pages.dictionary_page_offset if pages.has_dictionary_page else pages.data_page_offset)


def _range_of_paths(group: pq.RowGroupMetaData) -> tuple[str, str | None]:
    """The first path and the last one; from the empty path to None, which is above all, if nothing says so."""
    statistics = group.column(0).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else ("", None)
