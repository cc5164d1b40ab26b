"""The files of `large`: one of each format, of 5 GB as stored, in which a block of records is repeated."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

from benchmarks import checksum
from benchmarks.data import SEED, Dataset, path_of
from benchmarks.format_data import AVRO_SCHEMA
from benchmarks.records import EVENT_SCHEMA, NESTED_SCHEMA, event_lines, nested_lines

BYTES = 5_000_000_000
BLOCK_RECORDS, BLOCKS_A_GROUP = 50_000, 20
MAX_RECORD_BYTES = 16 << 20
"""The default of `limits.max_record_bytes`."""
SUMMED = ("id", "n", "value")

Records = Sequence[Mapping[str, Any]]
Block = Callable[[], object]
"""Writes the records once more."""
Writer = Callable[[BinaryIO, Records], Any]
"""A context manager around a file. It gives a Block; what is written before the block and after it belongs to the
format."""


@dataclass(frozen=True, slots=True)
class LargeFile:
    """`settings`: fields of the source. `summed`: columns with checksums. `is_record`: the file is one record, and is
    dead-lettered if it is larger than a record may be."""

    writer: Writer
    schema: str | None = NESTED_SCHEMA
    settings: Mapping[str, Any] = field(default_factory=dict)
    summed: tuple[str, ...] = SUMMED
    is_record: bool = False


def large_dataset(form: str, folder: Path, *, total_bytes: int, records: int) -> Dataset:
    """One file below `folder`, of the first multiple of a block that has so many bytes; at least one block. `form`: one
    of LARGE. `records`: of a block."""
    large = LARGE[form]
    lines = event_lines if form == "csv" else nested_lines
    block = [json.loads(line) for line in lines(random.Random(f"{SEED}:large"), 0, records)]
    path = path_of(0, 0, f".{form}")
    file = folder / path
    file.parent.mkdir(parents=True)
    times = 0
    with file.open("wb") as stream, large.writer(stream, block) as write_block:
        while not times or stream.tell() < total_bytes:
            write_block()
            times += 1
    stored, rows = file.stat().st_size, times * len(block)
    if large.is_record:
        rows = int(stored <= MAX_RECORD_BYTES)
    sums = {name: times * _sum_of(form, name, block) for name in large.summed}
    name = f"{form}-large"
    return Dataset(name, 1.0, str(folder), large.schema or "", rows, sums, 0, stored, stored, (path,), form)


def _sum_of(form: str, column: str, block: Records) -> int:
    if form == "text":
        return sum(checksum.of_value(json.dumps(record)) for record in block)
    return sum(checksum.of_value(record[column]) for record in block)


# -- text


def _lines(texts: Iterator[str], last: str = "\n") -> bytes:
    return ("\n".join(texts) + last).encode()


@contextmanager
def _ndjson(file: BinaryIO, records: Records) -> Iterator[Block]:
    block = _lines(map(json.dumps, records))
    yield lambda: file.write(block)


@contextmanager
def _csv(file: BinaryIO, records: Records) -> Iterator[Block]:
    """Without quotes, which no value needs."""
    file.write(_lines(iter([",".join(records[0])])))
    block = _lines(",".join(map(str, record.values())) for record in records)
    yield lambda: file.write(block)


@contextmanager
def _json(file: BinaryIO, records: Records) -> Iterator[Block]:
    """One array in one line."""
    block = ",".join(json.dumps(record, separators=(",", ":")) for record in records).encode()
    separator = iter([b"["])

    def write() -> None:
        file.write(next(separator, b","))
        file.write(block)

    yield write
    file.write(b"]")


@contextmanager
def _xml(file: BinaryIO, records: Records) -> Iterator[Block]:
    block = _lines(f"<event>{''.join(_elements(record))}</event>" for record in records)
    file.write(b"<events>\n")
    yield lambda: file.write(block)
    file.write(b"</events>\n")


def _elements(record: Mapping[str, Any]) -> Iterator[str]:
    for name, value in record.items():
        for one in value if isinstance(value, list) else [value]:
            inner = "".join(_elements(one)) if isinstance(one, dict) else escape(f"{one}")
            yield f"<{name}>{inner}</{name}>"


# -- columns


@contextmanager
def _parquet(file: BinaryIO, records: Records) -> Iterator[Block]:
    """Row groups of a million records, as pyarrow writes them, with snappy."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.contenders.arrow_schema import NESTED

    table, pending = pa.Table.from_pylist([*records], NESTED), []

    def write() -> None:
        pending.append(table)
        if len(pending) == BLOCKS_A_GROUP:
            flush()

    def flush() -> None:
        if pending:
            writer.write_table(pa.concat_tables(pending))
        pending.clear()

    with pq.ParquetWriter(file, NESTED) as writer:
        yield write
        flush()


@contextmanager
def _orc(file: BinaryIO, records: Records) -> Iterator[Block]:
    import pyarrow as pa
    from pyarrow import orc

    from benchmarks.contenders.arrow_schema import NESTED

    table = pa.Table.from_pylist([*records], NESTED)
    with orc.ORCWriter(file, compression="snappy") as writer:
        yield lambda: writer.write(table)


@contextmanager
def _avro(file: BinaryIO, records: Records) -> Iterator[Block]:
    """What follows on the header are blocks that do not depend on each other."""
    import fastavro

    def stored(some: Records) -> bytes:
        written = BytesIO()
        fastavro.writer(written, dict(AVRO_SCHEMA), some, codec="deflate", sync_marker=bytes(16))
        return written.getvalue()

    header = stored([])
    block = stored(records)[len(header) :]
    file.write(header)
    yield lambda: file.write(block)


LARGE: Mapping[str, LargeFile] = {
    "ndjson": LargeFile(_ndjson),
    "csv": LargeFile(_csv, EVENT_SCHEMA),
    "json": LargeFile(_json),
    "parquet": LargeFile(_parquet),
    "avro": LargeFile(_avro),
    "orc": LargeFile(_orc),
    "xml": LargeFile(_xml, settings={"xml": {"row_tag": "event"}}),
    "text": LargeFile(_ndjson, None, summed=("value",)),
    "binary": LargeFile(_ndjson, None, summed=(), is_record=True),
}
