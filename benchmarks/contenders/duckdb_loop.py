"""DuckDB reads the files, with its own threads, and deltalake writes its result as one commit. It has no state."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "DuckDB, deltalake"
_NO_READER = "DuckDB has no reader of it without an extension, which it downloads"
UNSUPPORTED: dict[str, str] = {
    f"{form}-{size}": f"{form}: {_NO_READER}" for form in ("avro", "orc") for size in ("big", "small")
}
_EVENTS = "{id: 'VARCHAR', n: 'BIGINT', timestamp: 'BIGINT', value: 'DOUBLE', payload: 'VARCHAR'"
_NESTED = f"{_EVENTS}, origin: 'STRUCT(host VARCHAR, port BIGINT)', tags: 'VARCHAR[]'}}"
_READERS: Mapping[str, str] = {
    "csv": f"read_csv($paths, header = true, hive_partitioning = true, columns = {_EVENTS}}})",
    "json": f"read_json($paths, format = 'array', hive_partitioning = true, columns = {_NESTED})",
    "parquet": "read_parquet($paths, hive_partitioning = true)",
}


def prepare(work: Work, number: int) -> None:
    pass


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    import duckdb
    from deltalake import write_deltalake

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {work.cores}")

        def run(number: int) -> dict[str, Any]:
            query = f"SELECT * REPLACE (CAST(date AS DATE) AS date) FROM {_READERS[work.data.format]}"
            found = connection.sql(query, params={"paths": work.paths()})
            write_deltalake(work.table(number), found, partition_by=["date"])  # takes it as a stream of batches
            return {}

        yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    return 1
