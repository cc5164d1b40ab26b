"""More of a few files in whose beginnings no record ends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blizzard.errors import NotFound
from blizzard.infer.budget import MORE_BYTES
from blizzard.infer.observed import Observed
from blizzard.storage.base import ObjectStore
from spark_job.formats.protocol import FileFault
from spark_job.infer.heads import Head, read_heads

_FILES, _FIRST_BYTES, _FACTOR = 3, 256 << 10, 4
_FORMATS = ("ndjson", "json", "csv", "xml")


def lacks_records(observed: Observed, heads: Sequence[Head], format_name: str) -> bool:
    """Whether no record was seen because the heads end before one does."""
    return format_name in _FORMATS and not observed.records and any(not head.is_whole for head in heads)


def longest(heads: Sequence[Head]) -> int:
    """Bytes of the longest head that is cut off."""
    return max((len(head.data) for head in heads if not head.is_whole), default=0)


@dataclass(slots=True)
class LongerHeads:
    """`left`: how many bytes may still be read."""

    store: ObjectStore
    left: int = MORE_BYTES

    def of(self, heads: Sequence[Head]) -> Iterator[list[Head]]:
        """Of the smallest files whose heads are cut off, longer each time, until nothing is left or they are whole."""
        cut = {head.info.key: head for head in heads if not head.is_whole}
        few = sorted(cut.values(), key=lambda head: (head.info.size, head.info.key))[:_FILES]
        size = longest(few)
        while few:
            before, size = size, min(max(size * _FACTOR, _FIRST_BYTES), self.left // len(few))
            if size <= before:
                return
            found = [longer for head in few for longer in self._read(head, size)]
            self.left -= sum(len(head.data) for head in found)
            yield found
            if all(head.is_whole for head in found):
                return

    def _read(self, head: Head, size: int) -> list[Head]:
        try:
            return read_heads(self.store, head.info, size, head.compression)
        except (FileFault, NotFound):
            return []
