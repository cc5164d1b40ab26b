"""Blocks of records that a format has divided from each other, but not parsed yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self


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
        return sum(map(len, self.records))

    def from_record(self, number: int) -> Self:
        """Without the records before that number of the file."""
        done = number - self.first_record
        if done <= 0:
            return self
        broken = {at - done: why for at, why in self.broken.items() if at >= done}
        return replace(self, records=self.records[done:], first_record=number, broken=broken)
