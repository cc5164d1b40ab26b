"""Rows for data files, a writer with short names, and a store that counts its open writers."""

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from blizzard.storage.base import ObjectStore, ObjectWriter
from blizzard.storage.memory import MemoryStore
from spark_job.write.data_file import DataFile, TableLayout
from spark_job.write.parquet_files import BufferBudget, DataFileWriter

PROVENANCE = pa.struct([("source", pa.string()), ("file", pa.string()), ("row", pa.int64())])
SCHEMA = pa.schema(
    [("id", pa.string()), ("kind", pa.string()), ("n", pa.int64()), ("day", pa.date32()), ("_source", PROVENANCE)]
)
MIB = 1 << 20
LAYOUT = TableLayout("", ("day", "kind"), ("id", "n", "_source.file"), 32, 1 << 20)


def writer_into(store: ObjectStore, layout: TableLayout = LAYOUT, schema: pa.Schema = SCHEMA, **more: Any) -> Any:
    numbers = itertools.count()
    arguments = {"new_name": lambda: f"{next(numbers):06}", "clock": lambda: 1.5} | more
    arguments.setdefault("buffer", BufferBudget(arguments.pop("buffer_bytes", 1 << 20)))
    return DataFileWriter(store, layout, schema, **arguments)


def memory() -> MemoryStore:
    return MemoryStore(time.time)


def dictionary_encoded(texts: Sequence[str | None]) -> pa.DictionaryArray:
    return pa.array(texts, pa.string()).dictionary_encode()


Row = dict[str, Any]


def table_of(rows: Sequence[Row], *, as_dictionary: bool) -> pa.Table:
    """The rows as a parser returns them: plain, or dictionary-encoded where values repeat."""
    plain = pa.Table.from_pylist(list(rows), SCHEMA)
    if not as_dictionary:
        return plain
    provenance = plain["_source"].combine_chunks()
    children = [
        dictionary_encoded(provenance.field("source").to_pylist()),
        dictionary_encoded(provenance.field("file").to_pylist()),
    ]
    encoded = pa.StructArray.from_arrays(
        [*children, provenance.field("row")], names=["source", "file", "row"], mask=provenance.is_null()
    )
    return plain.set_column(1, "kind", dictionary_encoded(plain["kind"].to_pylist())).set_column(4, "_source", encoded)


def stored(store: ObjectStore, file: DataFile, schema: pa.Schema = SCHEMA) -> list[Row]:
    """The rows that a reader of the table gets from a file."""
    rows = pq.read_table(pa.BufferReader(store.get(file.path)))
    for name, text in file.partition_values.items():
        value = pa.scalar(text, pa.string()).cast(schema.field(name).type)
        rows = rows.append_column(schema.field(name), pa.array([value.as_py()] * rows.num_rows, value.type))
    return list(rows.select(schema.names).to_pylist())


def as_table_sees(row: Row) -> str:
    """In a partition column "" becomes null."""
    return shown(row | {"kind": row["kind"] or None})


def shown(row: Row) -> str:
    source = row["_source"]
    return repr([*(row[name] for name in SCHEMA.names[:-1]), source and sorted(source.items())])


def noise(rows: int, day: int = 1) -> pa.Table:
    """Rows of 128 bytes that do not compress."""
    texts = [random.Random(number).randbytes(64).hex() for number in range(rows)]
    return table_of(
        [{"id": text, "day": date(2024, 1, day), "n": at} for at, text in enumerate(texts)], as_dictionary=True
    )


_texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=6)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": _texts,
            "kind": st.sampled_from(["", "a b", "x/y=z", "é🎉", "%", None, "\x01"]),
            "n": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "day": st.sampled_from([None, date(1, 1, 1), date(1969, 12, 31), date(2024, 1, 28)]),
            "_source": st.none()
            | st.fixed_dictionaries({"source": _texts, "file": st.sampled_from("abc"), "row": st.integers(0, 9)}),
        }
    ),
    max_size=40,
)
tables_of_rows = st.lists(st.tuples(_rows, st.booleans()), max_size=6)


class CountingStore(MemoryStore):
    """`open`: writers open now; `most`: the highest number so far; `late`: sizes of writes after a close."""

    def __init__(self) -> None:
        super().__init__(time.time)
        self.open = self.most = 0
        self.late: list[int] = []

    @contextmanager
    def writer(self, key: str) -> Iterator[ObjectWriter]:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            with super().writer(key) as writer:
                yield WatchedWriter(writer, self.late)
        finally:
            self.open -= 1


@dataclass
class WatchedWriter:
    body: ObjectWriter
    late: list[int]

    @property
    def closed(self) -> bool:
        return self.body.closed

    def write(self, data: Any) -> int:
        if self.body.closed:
            self.late.append(len(data))
        return self.body.write(data)
