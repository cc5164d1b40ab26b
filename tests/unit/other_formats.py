"""Formats of the two kinds that are not lines: a stream of values, and columns that need random access.

Tests register them: they show what the Protocol admits, with no code of the job changed.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from blizzard.state.dead_letters import Stage
from spark_job.formats.deferred import all_refused
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed
from spark_job.formats.registry import Options

VALUES_A_BLOCK = 3
BLANKS = re.compile(r"\s*")
BATCH_ROWS = 100
BUFFER_BYTES = 64 << 10
"""Without it, or with `pre_buffer`, pyarrow reads a column of a whole row group at once."""


@dataclass(frozen=True, slots=True)
class ValueBlock:
    """Values that nobody has parsed yet."""

    values: tuple[bytes, ...]
    first_record: int

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.values))


class ValueStream:
    """JSON values divided by blanks, such as `{"row": {"id": "a"}} {"row": {"id": "b"}}`; a value may hold line feeds.

    The option `member` names the member of each value that is the record.
    """

    def __init__(self, schema: StructType, limits: Limits, options: Options) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema)
        self._limits = limits
        self._member = options["member"]

    def blocks(self, content: Content, *, first_record: int) -> Iterator[ValueBlock]:
        waiting: list[bytes] = []
        number = 0
        for value in self._values(content):
            number += 1
            if number > first_record:
                waiting.append(value)
            if len(waiting) == VALUES_A_BLOCK:
                yield ValueBlock(tuple(waiting), number - len(waiting))
                waiting.clear()
        if waiting:
            yield ValueBlock(tuple(waiting), number - len(waiting))

    def _values(self, content: Content) -> Iterator[bytes]:
        stream, text, decoder = content.stream(), "", json.JSONDecoder()
        utf8 = codecs.getincrementaldecoder("utf-8")()
        while True:
            chunk = stream.read(content.chunk_bytes)
            text = (text + _decoded(utf8, chunk)).lstrip()
            start = 0
            while start < len(text):
                try:
                    _, end = decoder.raw_decode(text, start)
                except json.JSONDecodeError:
                    break
                if chunk and end == len(text) and text[start] not in '{["':  # the next chunk may go on with a number
                    break
                yield text[start:end].encode()
                start = BLANKS.match(text, end).end()  # type: ignore[union-attr]
            text = text[start:]
            if len(text) > self._limits.max_record_bytes:
                raise FileFault(Stage.PARSE, f"limit max_record_bytes: no value ends within {len(text)} characters")
            if not chunk:
                break
        if text:
            raise FileFault(Stage.PARSE, "a value is not JSON, or incomplete")

    def parse(self, blocks: Sequence[ValueBlock]) -> Parsed:
        values = [value for block in blocks for value in block.values]
        found = [_member(json.loads(value), self._member) for value in values]
        good = [n for n, record in enumerate(found) if isinstance(record, dict)]
        refused = [(n, "expected an object") for n, record in enumerate(found) if not isinstance(record, dict)]
        records = pa.Table.from_pylist([found[n] for n in good], schema=self._schema)
        return Parsed(records, good, refused, [values[n] for n, _ in refused])

    def decide(self, deferred: DataFrame) -> DataFrame:
        raise AssertionError("every refused record has a reason")


def _decoded(utf8: codecs.IncrementalDecoder, chunk: bytes) -> str:
    try:
        return utf8.decode(chunk, final=not chunk)
    except UnicodeDecodeError as error:
        raise FileFault(Stage.PARSE, f"not UTF-8: {error.reason}") from error


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


@dataclass(frozen=True, slots=True)
class BatchBlock:
    """Rows that the file holds as Arrow's columns."""

    batch: pa.RecordBatch
    first_record: int

    @property
    def count(self) -> int:
        return int(self.batch.num_rows)

    @property
    def size_bytes(self) -> int:
        return int(self.batch.nbytes)


class Columns:
    """Parquet: row groups before the first wanted record are not read, and a row group is read in several batches."""

    def __init__(self, schema: StructType, limits: Limits, options: Options) -> None:
        self._schema = schema

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        stored = content.random_access()
        file = _by_library(lambda: pq.ParquetFile(stored, buffer_size=BUFFER_BYTES, pre_buffer=False))
        number = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if number + rows > first_record:
                yield from _of_group(file, group, number, first_record)
            number += rows

    def parse(self, blocks: Sequence[BatchBlock]) -> Parsed:
        table = pa.Table.from_batches([block.batch for block in blocks]).combine_chunks()
        bad = pc.is_null(table["id"])
        refused = pc.indices_nonzero(bad).to_pylist()
        texts = [json.dumps(row).encode() for row in table.filter(bad).to_pylist()]
        good = pc.indices_nonzero(pc.invert(bad)).to_pylist()
        return Parsed(
            table.take(pa.array(good, pa.int64())), good, [(n, "id: NOT NULL, but it is null") for n in refused], texts
        )

    def decide(self, deferred: DataFrame) -> DataFrame:
        return all_refused(deferred, self._schema)


def _of_group(file: pq.ParquetFile, group: int, number: int, first_record: int) -> Iterator[BatchBlock]:
    """`number`: of the row group's first record."""
    batches = _by_library(lambda: file.iter_batches(BATCH_ROWS, row_groups=[group]))
    while (batch := _by_library(lambda: next(batches, None))) is not None:
        done = max(0, first_record - number)
        if done < batch.num_rows:
            yield BatchBlock(batch.slice(done), number + done)
        number += batch.num_rows


T = TypeVar("T")


def _by_library(call: Callable[[], T]) -> T:
    """pyarrow raises an OSError of its own for bytes that it cannot read."""
    try:
        return call()
    except pa.ArrowException as error:
        raise FileFault(Stage.PARSE, f"not Parquet: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise FileFault(Stage.PARSE, f"not Parquet, or damaged: {error}") from error
