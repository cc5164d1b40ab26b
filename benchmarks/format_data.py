"""The data sets of `formats`: the records of `big` in files of each format, with nested columns unless it is csv."""

import gzip
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import checksum
from benchmarks.data import CACHE, SEED, SUMMED, Dataset, FileSpec, Made, cached, even, files_at, generated
from benchmarks.records import EVENT_SCHEMA, NESTED_SCHEMA, event_lines, nested_lines

FORMATS = ("csv", "json", "parquet", "avro", "orc")
SIZES = ("big", "small")
EXTENSIONS: Mapping[str, str] = {
    "ndjson": ".ndjson.gz",
    "csv": ".csv.gz",
    "json": ".json.gz",
    "parquet": ".parquet",
    "avro": ".avro",
    "orc": ".orc",
}
"""Of the files of all data sets, by format."""
AVRO_SCHEMA: Mapping[str, Any] = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "id", "type": "string"},
        *({"name": name, "type": ["null", "long"]} for name in ("n", "timestamp")),
        {"name": "value", "type": ["null", "double"]},
        {"name": "payload", "type": ["null", "string"]},
        {
            "name": "origin",
            "type": {
                "type": "record",
                "name": "origin",
                "fields": [{"name": "host", "type": ["null", "string"]}, {"name": "port", "type": ["null", "long"]}],
            },
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}

Records = Sequence[Mapping[str, Any]]


def format_dataset(
    form: str, size: str, scale: float, report_progress: Callable[[str], None] = lambda _: None, *, cache: Path = CACHE
) -> Dataset:
    """Returns the cached data set, or generates it. `big`: 5,000,000 records in 100 files; `small`: 10,000 files of 10
    records. `form`: one of FORMATS."""
    name, schema = f"{form}-{size}", EVENT_SCHEMA if form == "csv" else NESTED_SCHEMA

    def make(folder: Path) -> Dataset:
        specs = specs_of(form, size, scale)
        total = generated(name, specs, folder, partial(_make_files, form, size, folder), report_progress)
        paths = tuple(spec.path for spec in specs)
        return Dataset(name, scale, str(folder), schema, **asdict(total), paths=paths, format=form)

    return cached(name, scale, cache, make)


def specs_of(form: str, size: str, scale: float) -> list[FileSpec]:
    if size == "big":
        return [*even(round(5_000_000 * scale), files_at(100, scale), 4, EXTENSIONS[form])]
    files = max(10, round(10_000 * scale))
    return [*even(10 * files, files, 10, EXTENSIONS[form])]


def _make_files(form: str, size: str, folder: Path, specs: Sequence[FileSpec]) -> Made:
    total = Made()
    for spec in specs:
        total = total.add(_make_file(form, size, folder / spec.path, spec))
    return total


def _make_file(form: str, size: str, path: Path, spec: FileSpec) -> Made:
    rng = random.Random(f"{SEED}:{size}:{spec.number}")
    lines = event_lines if form == "csv" else nested_lines
    records = [json.loads(line) for line in lines(rng, spec.first, spec.records)]
    columns = SUMMED[EVENT_SCHEMA if form == "csv" else NESTED_SCHEMA]
    sums = {name: sum(checksum.of_value(record[name]) for record in records) for name in columns}
    raw_bytes = WRITERS[form](path, records)
    stored_bytes = path.stat().st_size
    return Made(len(records), sums, 0, stored_bytes, raw_bytes or stored_bytes)


def _csv(path: Path, records: Records) -> int:
    """Without quotes, which no value needs."""
    rows = [",".join(records[0]), *(",".join(map(str, record.values())) for record in records)]
    return _gzipped(path, "\n".join(rows) + "\n")


def _json(path: Path, records: Records) -> int:
    """One array, without blanks."""
    return _gzipped(path, json.dumps(records, separators=(",", ":")))


def _gzipped(path: Path, text: str) -> int:
    data = text.encode()
    # No name or time in the gzip header, so that the same seed gives the same bytes.
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        return packed.write(data)


def _parquet(path: Path, records: Records) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.contenders.arrow_schema import NESTED

    pq.write_table(pa.Table.from_pylist(records, NESTED), path)
    return 0


def _orc(path: Path, records: Records) -> int:
    import pyarrow as pa
    from pyarrow import orc

    from benchmarks.contenders.arrow_schema import NESTED

    orc.write_table(pa.Table.from_pylist(records, NESTED), path, compression="zlib")
    return 0


def _avro(path: Path, records: Records) -> int:
    import fastavro

    with path.open("wb") as file:
        fastavro.writer(file, dict(AVRO_SCHEMA), records, codec="deflate", sync_marker=bytes(16))
    return 0


WRITERS: Mapping[str, Callable[[Path, Records], int]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "avro": _avro,
    "orc": _orc,
}
"""Each returns the size of the text before compression; 0 if the format is no text."""
