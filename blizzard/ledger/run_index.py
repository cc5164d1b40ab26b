"""The index of a run: where its blocks are, and what its partitions look like."""

import json
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise

from blizzard.errors import UnreadableState
from blizzard.ledger.entry import LedgerEntry
from blizzard.ledger.path_list import PathList
from blizzard.state.run_ref import RunRef
from blizzard.state.watermark import split_path
from blizzard.storage import json_fields

_FORMAT = 1
ORDER_SLACK_MS = 60_000
"""Several producers that name files by time are never in perfect step. A watermark waits for them as long as this, by
default (`settle_delay_secs`)."""


@dataclass(slots=True)
class PartitionStats:
    """The files of one partition in a run. `disordered`: how many are older, by more than ORDER_SLACK_MS, than the file
    whose name sorts right before theirs. Of names in no order it is nearly half, however they were cut into commits.
    `newest_ms`: the latest `time_ms`; `last_name`: the highest file name."""

    files: int = 0
    disordered: int = 0
    newest_ms: int = 0
    last_name: str = ""
    last_ms: int = field(default=0, repr=False)
    """`time_ms` of the file with the highest name; while a run is written."""

    def add(self, name: str, entry: LedgerEntry) -> None:
        """`entry` sorts after all that were added before."""
        self.files += 1
        self.disordered += entry.time_ms < self.last_ms - ORDER_SLACK_MS
        self.newest_ms = max(self.newest_ms, entry.time_ms)
        self.last_name, self.last_ms = name, entry.time_ms

    def add_run(self, other: "PartitionStats") -> None:
        """Add the partition's files in another run."""
        self.files += other.files
        self.disordered += other.disordered
        self.newest_ms = max(self.newest_ms, other.newest_ms)
        self.last_name = max(self.last_name, other.last_name)


@dataclass(slots=True)
class RunIndex:
    """`starts`: for each block a text above all paths of the block before, and not above its own; `offsets`: where each
    block begins, then the end of the last; `checksums` (CRC-32)
    of the blocks. `previous`: the name of the receipt before the run's first commit; None if there is none."""

    source_id: str
    previous: str | None
    filter_checksum: int = 0
    starts: PathList = field(default_factory=PathList)
    offsets: "array[int]" = field(default_factory=lambda: array("Q", [0]))
    checksums: "array[int]" = field(default_factory=lambda: array("I"))
    partitions: dict[str, PartitionStats] = field(default_factory=dict)
    last_path: str = field(default="", repr=False)
    """Of the block before, while a run is written."""

    def add_block(self, entries: Sequence[LedgerEntry], data: bytes) -> None:
        self.starts.append(shortest_above(self.last_path, entries[0].path))
        self.last_path = entries[-1].path
        self.offsets.append(self.offsets[-1] + len(data))
        self.checksums.append(zlib.crc32(data))
        for entry in entries:
            partition, name = split_path(entry.path)
            stats = self.partitions.get(partition)
            if stats is None:
                stats = self.partitions[partition] = PartitionStats()
            stats.add(name, entry)

    def block_of(self, path: str) -> int:
        """The number of the block that has this path if the run has it; -1 if the run begins after it."""
        return bisect_right(self.starts, path) - 1

    def check_block(self, number: int, data: bytes) -> bytes:
        """Raises UnreadableState if these are not the bytes of the block."""
        if zlib.crc32(data) != self.checksums[number]:
            raise UnreadableState(f"block {number} of the run is damaged")
        return data


def shortest_above(before: str, path: str) -> str:
    """The shortest beginning of `path` that sorts above `before`, as `path` does."""
    shared = next((at for at, (one, other) in enumerate(zip(before, path, strict=False)) if one != other), len(before))
    return path[: shared + 1]


def encode_index(index: RunIndex) -> tuple[bytes, str]:
    """The bytes, and their digest for the reference."""
    document = {
        "format": _FORMAT,
        "source": index.source_id,
        "previous": index.previous,
        "filter": index.filter_checksum,
        "starts": [*index.starts],
        "sizes": _differences(index.offsets),
        "checksums": index.checksums.tolist(),
        "partitions": [[name, s.files, s.disordered, s.newest_ms, s.last_name] for name, s in index.partitions.items()],
    }
    data = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)
    return data, _digest(data)


def decode_index(data: bytes, ref: RunRef, source_id: str) -> RunIndex:
    """Raises UnreadableState, also for a run of another source."""
    if _digest(data) != ref.digest:
        raise UnreadableState(f"run {ref.name} of the ledger is not the one that the checkpoint names, or damaged")
    try:
        document = json_fields.mapping(json.loads(zlib.decompress(data)))
        if (document["format"], document["source"]) != (_FORMAT, source_id):
            raise ValueError(f"it has format {document['format']!r:.20} and belongs to {document['source']!r:.80}")
        offsets = array("Q", [0])
        for size in document["sizes"]:
            offsets.append(offsets[-1] + size)
        return RunIndex(
            source_id=source_id,
            previous=json_fields.optional_text(document["previous"]),
            filter_checksum=json_fields.natural(document["filter"]),
            starts=PathList(json_fields.array(document["starts"])),
            offsets=offsets,
            checksums=array("I", document["checksums"]),
            partitions={name: PartitionStats(*stats) for name, *stats in document["partitions"]},
        )
    except (zlib.error, *json_fields.MALFORMED) as error:
        raise UnreadableState(f"run {ref.name} of the ledger cannot be read ({error!s:.200})") from error


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _differences(offsets: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise(offsets)]
