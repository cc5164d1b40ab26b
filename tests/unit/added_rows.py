"""A table of data files written by hand, with any statistics, and a store that notes what is read of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from blizzard.storage.local import LocalStore
from spark_job.engines.local.source_rows import SourceRows

FIELDS = {
    "source": pa.string(),
    "file": pa.string(),
    "row": pa.int64(),
    "etag": pa.string(),
    "modified": pa.timestamp("us", "UTC"),
    "sequence": pa.int64(),
}
_DELTA = {"string": "string", "int64": "long", "timestamp[us, tz=UTC]": "timestamp"}
DAY = datetime(2026, 1, 2, tzinfo=UTC)


class Row(NamedTuple):
    """`_source` of one row; `time` is `modified` in microseconds since a day."""

    source: str | None = "events:landing"
    file: str = "f"
    row: int = 0
    sequence: int = 0
    time: int = 0

    def fields(self) -> dict[str, Any]:
        modified = DAY + timedelta(microseconds=self.time)
        return {
            "source": self.source,
            "file": self.file,
            "row": self.row,
            "etag": f"e-{self.file}",
            "modified": modified,
            "sequence": self.sequence,
        }


class CountedStore(LocalStore):
    """`read` has the key and the size of every request that fetched data."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[tuple[str, int]] = []

    def get(self, key: str) -> bytes:
        data = super().get(key)
        self.read.append((key, len(data)))
        return data

    def get_range(self, key: str, start: int, size: int) -> bytes:
        data = super().get_range(key, start, size)
        self.read.append((key, len(data)))
        return data

    @property
    def read_bytes(self) -> int:
        return sum(size for _, size in self.read)

    @property
    def keys(self) -> set[str]:
        return {key for key, _ in self.read}


@dataclass
class AddedRows:
    """`fields`: those of `_source` in the data files."""

    folder: Path
    fields: Sequence[str] = (*FIELDS,)
    adds: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, *rows: Row | None, stats: str = "true", payload_bytes: int = 0, group_rows: int = 10_000) -> str:
        """One data file of these rows; None is one without `_source`. `stats`: `true`, `none`, or `rows` for their
        number alone. `payload_bytes`: of each row, in each of two other columns. Returns its path."""
        kind = pa.struct([(name, FIELDS[name]) for name in self.fields])
        values = [row and {name: row.fields()[name] for name in self.fields} for row in rows]
        numbers = [f"{number}".encode() for number in range(len(rows))]
        payload = [b"".join(number_hash(n, i) for i in range(payload_bytes // 32)) for n in numbers]
        columns = {"before": payload, "_source": pa.array(values, kind), "after": payload}
        path = f"part-{len(self.adds):05d}.parquet"
        self.folder.mkdir(exist_ok=True)
        small = {"write_batch_size": 100, "data_page_size": 10_000, "dictionary_pagesize_limit": 10_000}
        pq.write_table(pa.table(columns), self.folder / path, row_group_size=group_rows, **small)
        return self.add_file(path, stats_of([row for row in rows if row], len(rows)), stats)

    def add_file(self, path: str, statistics: Mapping[str, Any], stats: str = "true") -> str:
        size = (self.folder / path).stat().st_size
        add = {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": len(self.adds),
            "dataChange": True,
        }
        kept = {"true": statistics, "rows": {"numRecords": statistics["numRecords"]}, "none": None}[stats]
        self.adds.append(add if kept is None else {**add, "stats": json.dumps(kept)})
        return path

    def table(self) -> DeltaTable:
        source = {
            "type": "struct",
            "fields": [_field(name, _DELTA[str(kind)]) for name, kind in FIELDS.items()],
        }
        fields = [_field("before", "binary"), _field("_source", source), _field("after", "binary")]
        schema = json.dumps({"type": "struct", "fields": fields})
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 0,
        }
        actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
        lines = [json.dumps(action) for action in (*actions, *({"add": add} for add in self.adds))]
        log = self.folder / "_delta_log"
        log.mkdir(exist_ok=True, parents=True)
        (log / f"{0:020d}.json").write_text("\n".join(lines))
        return DeltaTable(str(self.folder))

    def rows(self, source_id: str = "events:landing") -> tuple[SourceRows, CountedStore]:
        store = CountedStore(self.folder)
        return SourceRows(self.table(), store, source_id), store

    @property
    def size(self) -> int:
        return sum(add["size"] for add in self.adds)


def number_hash(number: bytes, part: int) -> bytes:
    """32 bytes that do not compress."""
    return sha256(b"%s %d" % (number, part)).digest()


def stats_of(rows: Sequence[Row], num_records: int) -> dict[str, Any]:
    """As Delta writes them, times cut to milliseconds."""
    values = [row.fields() for row in rows]
    present = {name: [value[name] for value in values if value[name] is not None] for name in FIELDS}
    lows, highs = ({name: _json(side(of)) for name, of in present.items() if of} for side in (min, max))
    nulls = {name: num_records - len(of) for name, of in present.items()}
    return {
        "numRecords": num_records,
        "minValues": {"_source": lows},
        "maxValues": {"_source": highs},
        "nullCount": {"_source": nulls},
    }


def _json(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z" if isinstance(value, datetime) else value


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}
