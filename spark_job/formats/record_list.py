"""Blocks of records that a format has divided from each other, but not parsed yet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Self, overload

RECORD_BYTES = 41
"""What Python takes for a record beside its text."""


class JoinedRecords(Sequence[bytes]):
    """Records without line ends, in one text with a line end between each two. The text is divided when a record is
    asked for, which is not needed as long as all are good."""

    def __init__(self, text: bytes) -> None:
        """`text`: of one record at least."""
        self.text = text

    @cached_property
    def _count(self) -> int:
        return len(self.text) - len(self.text.replace(b"\n", b"")) + 1  # faster than bytes.count

    @cached_property
    def _records(self) -> list[bytes]:
        return self.text.split(b"\n")

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._records)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if at == 0:  # a header, for which the others need not be divided
            end = self.text.find(b"\n")
            return self.text if end < 0 else self.text[:end]
        return self._records[at]

    def without_first(self) -> "Sequence[bytes]":
        _, line_end, others = self.text.partition(b"\n")
        return JoinedRecords(others) if line_end else ()


@dataclass(frozen=True, slots=True)
class RecordList:
    """Consecutive records of one file. `broken`: why some of them cannot be parsed, by their number in the block."""

    records: Sequence[bytes]
    first_record: int
    broken: Mapping[int, str]

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def size_bytes(self) -> int:
        records = self.records
        if isinstance(records, JoinedRecords):
            return len(records.text)
        return sum(map(len, records)) + RECORD_BYTES * len(records)

    def from_record(self, number: int) -> Self:
        """Without the records before that number of the file."""
        done = number - self.first_record
        if done <= 0:
            return self
        broken = {at - done: why for at, why in self.broken.items() if at >= done}
        return replace(self, records=self.records[done:], first_record=number, broken=broken)


def all_records(blocks: Sequence[RecordList]) -> Sequence[bytes]:
    """The records of some blocks, one at least."""
    texts = [block.records.text for block in blocks if isinstance(block.records, JoinedRecords)]
    if len(texts) == len(blocks):
        return JoinedRecords(b"\n".join(texts))
    return list(chain.from_iterable(block.records for block in blocks))


def text_of(records: Sequence[bytes]) -> bytes:
    """All records, with a line end between each two."""
    return records.text if isinstance(records, JoinedRecords) else b"\n".join(records)


def all_broken(blocks: Sequence[RecordList]) -> dict[int, str]:
    """Why some of `all_records` cannot be parsed, by their number there."""
    found, start = dict[int, str](), 0
    for block in blocks:
        found.update((start + number, why) for number, why in block.broken.items())
        start += block.count
    return found
