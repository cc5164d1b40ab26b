"""Files of each format as Arrow tables, as one reads them by hand: with pyarrow where it has a reader.

It has none for an array of JSON objects and none for Avro: there the fastest packages that make Python objects are
used.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from benchmarks.contenders.arrow_schema import EVENTS, NESTED

_BLOCK_BYTES = 8 << 20


def _ndjson(path: str, threads: bool) -> pa.Table:
    from pyarrow import json as pj

    options = pj.ParseOptions(explicit_schema=EVENTS, unexpected_field_behavior="ignore")
    how = pj.ReadOptions() if threads else pj.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with pa.input_stream(path, compression="gzip") as stream:
        return pj.read_json(stream, parse_options=options, read_options=how)


def _csv(path: str, threads: bool) -> pa.Table:
    from pyarrow import csv

    types = csv.ConvertOptions(column_types=EVENTS)
    how = csv.ReadOptions() if threads else csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)
    with pa.input_stream(path, compression="gzip") as stream:
        return csv.read_csv(stream, read_options=how, convert_options=types)


def _json(path: str, threads: bool) -> pa.Table:
    import orjson

    with pa.input_stream(path, compression="gzip") as stream:
        return pa.Table.from_pylist(orjson.loads(stream.read()), NESTED)


def _parquet(path: str, threads: bool) -> pa.Table:
    import pyarrow.parquet as pq

    # As the file alone: the folder's date would become a column of another type.
    return pq.ParquetFile(path).read(use_threads=threads)


def _avro(path: str, threads: bool) -> pa.Table:
    import fastavro

    with Path(path).open("rb") as file:
        return pa.Table.from_pylist([*fastavro.reader(file)], NESTED)


def _orc(path: str, threads: bool) -> pa.Table:
    from pyarrow import orc

    return orc.ORCFile(path).read()


READ: Mapping[str, Callable[[str, bool], pa.Table]] = {
    "ndjson": _ndjson,
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "avro": _avro,
    "orc": _orc,
}
"""By format: path, and whether pyarrow may use its own threads."""
