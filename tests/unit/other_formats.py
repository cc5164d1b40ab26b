"""Formats of the two kinds that are not lines: a stream of values, and columns that need random access.

Tests register them: they show what the Protocol admits, with no code of the job changed.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from blizzard.state.dead_letters import Stage
from spark_job.formats.deferred import all_refused
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed

VALUES_A_BLOCK = 3


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
    """JSON values divided by blanks, such as `{"id": "a"} {"id": "b"}`; a value may hold line feeds."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema)
        self._limits = limits

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
        while True:
            chunk = stream.read(content.chunk_bytes)
            text = (text + chunk.decode()).lstrip()
            while text:
                try:
                    _, end = decoder.raw_decode(text)
                except json.JSONDecodeError:
                    if not chunk:
                        raise FileFault(Stage.PARSE, "the last value is incomplete") from None
                    break
                yield text[:end].encode()
                text = text[end:].lstrip()
            if not chunk:
                return

    def parse(self, blocks: Sequence[ValueBlock]) -> Parsed:
        values = [value for block in blocks for value in block.values]
        found = [json.loads(value) for value in values]
        good = [n for n, record in enumerate(found) if isinstance(record, dict)]
        refused = [(n, "expected an object") for n, record in enumerate(found) if not isinstance(record, dict)]
        records = pa.Table.from_pylist([found[n] for n in good], schema=self._schema)
        return Parsed(records, good, refused, [values[n] for n, _ in refused])

    def decide(self, deferred: DataFrame) -> DataFrame:
        raise AssertionError("every refused record has a reason")


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
    """Parquet: row groups before the first wanted record are not read."""

    def __init__(self, schema: StructType, limits: Limits) -> None:
        self._schema = schema

    def blocks(self, content: Content, *, first_record: int) -> Iterator[BatchBlock]:
        try:
            file = pq.ParquetFile(content.random_access())
        except pa.ArrowInvalid as error:
            raise FileFault(Stage.PARSE, f"not Parquet: {error}") from error
        number = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if number + rows > first_record:
                (batch,) = file.read_row_group(group).combine_chunks().to_batches()
                done = max(0, first_record - number)
                yield BatchBlock(batch.slice(done), number + done)
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
