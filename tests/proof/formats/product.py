"""A damaged file through the product's own reader of its format, with the rules that hold for any file."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from blizzard.config.compressions import AUTO, compression_of
from blizzard.storage.base import ObjectInfo
from blizzard.storage.memory import MemoryReader
from spark_job.formats.protocol import Block, FileFault, Format, Limits, Parsed
from spark_job.formats.registry import open_format
from spark_job.tasks.file_content import CHUNK_BYTES, FileContent
from tests.proof.campaign import Failed
from tests.proof.formats.mutators import Damaged

LIMITS = Limits(max_record_bytes=1 << 20, max_file_bytes=64 << 20)
CHUNKS = (100, 1_000, CHUNK_BYTES, CHUNK_BYTES)
"""How much is read at a time: small pieces put the borders of blocks anywhere."""
_MOST_REASON = 20_000


@dataclass(slots=True)
class Found:
    """What became of a file. `fault`: why it is dead as a whole. `refused`: the reasons by record number, None for a
    record that is left to Spark."""

    count: int = 0
    fault: str | None = None
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    refused: dict[int, str | None] = field(default_factory=dict)


def opened(file: Damaged) -> Format[Any]:
    """The format, which has read the good file before: what it keeps of that must not harm the damaged one."""
    made = open_format(file.kind.name, file.kind.schema, LIMITS, file.base.options)
    if file.kind.name == "parquet":
        good = Damaged(file.kind, file.base, f"good{file.base.extension}", file.base.stored, ())
        with ExitStack() as stack:
            assert all(block.count for block in made.blocks(_content(good, CHUNK_BYTES, stack), first_record=0))
    return made


def read(
    file: Damaged,
    file_format: Format[Any],
    *,
    chunk_bytes: int,
    first_record: int = 0,
    together: bool = False,
) -> Found:
    """Raises Failed if a rule is broken. `together`: all blocks are parsed in one call."""
    found = Found(count=first_record)
    with ExitStack() as stack:
        try:
            blocks = [*_blocks(file_format, _content(file, chunk_bytes, stack), first_record)]
        except FileFault as fault:
            if not isinstance(fault.reason, str) or not 0 < len(fault.reason) <= _MOST_REASON:
                raise Failed(f"the file is dead without a reason: {fault.reason!a:.100}") from fault
            found.fault = fault.reason
            return found
        except Failed:
            raise
        except Exception as error:
            raise Failed(f"reading its blocks raised {type(error).__name__}: {error!s:.300}") from error
    for some in [blocks] if together else [[block] for block in blocks]:
        if some:
            _add(found, some, _parsed(file_format, some))
    return found


def _content(file: Damaged, chunk_bytes: int, stack: ExitStack) -> FileContent:
    reader = MemoryReader(ObjectInfo(file.path, len(file.body), "etag", 0.0), file.body)
    compression = "none" if file.kind.name == "binary" else compression_of(file.path, AUTO)
    size = len(file.body)
    # A slice of Parquet is read by another way than a whole file in memory, which it is with the usual chunks.
    slice_bytes = size if file.kind.name == "parquet" and chunk_bytes < CHUNK_BYTES else None
    content = FileContent(
        file.path, reader, size=size, compression=compression, limits=LIMITS, slice_bytes=slice_bytes, stack=stack
    )
    content.chunk_bytes = chunk_bytes
    return content


def _blocks(file_format: Format[Any], content: FileContent, number: int) -> Iterator[Block]:
    """Raises Failed unless they follow each other without a gap."""
    for block in file_format.blocks(content, first_record=number):
        if block.first_record != number or block.count < 1:
            raise Failed(f"a block of {block.count} records begins at record {block.first_record}; expected {number}")
        number += block.count
        yield block


def _parsed(file_format: Format[Any], blocks: Sequence[Block]) -> Parsed:
    try:
        return file_format.parse(blocks)
    except Exception as error:
        raise Failed(f"parsing its records raised {type(error).__name__}: {error!s:.300}") from error


def _add(found: Found, blocks: Sequence[Block], parsed: Parsed) -> None:
    count = sum(block.count for block in blocks)
    rows = [*(range(count) if parsed.positions is None else parsed.positions)]
    refused = [number for number, _ in parsed.refused]
    if sorted([*rows, *refused]) != [*range(count)] or rows != sorted(rows):
        raise Failed(f"of {count} records {len(rows)} are rows and {len(refused)} refused; expected each in one place")
    if parsed.records.num_rows != len(rows) or len(parsed.refused_texts) != len(refused):
        raise Failed(
            f"{parsed.records.num_rows} rows and {len(parsed.refused_texts)} texts; expected {len(rows)} "
            f"and {len(refused)}"
        )
    for _, reason in parsed.refused:
        if reason is not None and not (isinstance(reason, str) and reason.strip()):
            raise Failed(f"a record is refused without a reason: {reason!a:.100}")
    parsed.records.validate(full=True)
    for number, row in zip(rows, parsed.records.to_pylist(), strict=True):
        found.rows[found.count + number] = row
    for number, reason in parsed.refused:
        found.refused[found.count + number] = reason
    found.count += count
