"""Runs that are larger than a disk should hold for a benchmark: their blocks are holes in sparse files.

Filter and index are complete, so a ledger of them takes the memory of a real one. Their blocks cannot be read.
"""

import random
import zlib
from pathlib import Path

from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY, receipt_name
from benchmarks.ledger.tiers import Shape
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.path_filter import filter_bytes
from blizzard.ledger.run import BLOCK_ENTRIES
from blizzard.ledger.run_index import PartitionStats, RunIndex, encode_index, shortest_above
from blizzard.state.run_ref import RunRef

_BLOCK_BYTES = 19_000
_BITS_SET = 0.5
"""Share of the bits that are set in a filter with as many paths as it is made for: between 0.39 (18 bits a path) and
0.68 (8 bits)."""
_PIECE_BYTES = 1 << 20


def sparse_run(folder: str, shape: Shape, number: int) -> RunRef:
    first, last, files = shape.runs[number]
    index = _index(files, first, number)
    bits = _bits(filter_bytes(files))
    index.filter_checksum = zlib.crc32(bits)
    packed, digest = encode_index(index)
    filter_at = index.offsets[-1]
    index_at = filter_at + len(bits)
    ref = RunRef(first, last, f"{number:016x}", files, filter_at, index_at, index_at + len(packed), digest)
    file = Path(folder, ledger_folder(IDENTITY), ref.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        out.seek(filter_at)
        out.write(bits)
        out.write(packed)
    return ref


def _index(files: int, first: int, number: int) -> RunIndex:
    index = RunIndex(IDENTITY.source_id, receipt_name(first - 1) if first else None)
    blocks = -(-files // BLOCK_ENTRIES)
    starts = sorted(random_names.paths(blocks, f"starts {number}"))
    for block, (before, start) in enumerate(zip(["", *starts], starts, strict=False)):
        index.starts.append(shortest_above(before, start))
        index.offsets.append((block + 1) * _BLOCK_BYTES)
        index.checksums.append(zlib.crc32(str(block).encode()))
    last_name = random_names.file_name((1 << 128) - 1)
    for each in range(random_names.PARTITIONS):
        share = files // random_names.PARTITIONS
        index.partitions[random_names.partition(each)] = PartitionStats(
            share, share // 2, random_names.TIME_MS, last_name
        )
    return index


def _bits(size: int) -> bytes:
    rng = random.Random(size)
    piece = bytes(sum((rng.random() < _BITS_SET) << bit for bit in range(8)) for _ in range(min(size, _PIECE_BYTES)))
    return (piece * -(-size // len(piece)))[:size]
