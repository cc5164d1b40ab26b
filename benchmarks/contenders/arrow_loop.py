"""A hand-written loader without an engine: pyarrow, or the package that people use beside it, parses in one process per
core, and deltalake appends. It has no state, so it cannot tell which files are already in the table."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "deltalake, Arrow loop"
_NO_SKIP = "pyarrow.json cannot skip a broken line: the first one fails the whole file"
UNSUPPORTED = {
    "dirty": _NO_SKIP,
    "wide": "pyarrow.json reads no map from a JSON object and no time with a zone, so each column would need code",
}
ROWS_PER_APPEND = 2_000_000
SHARES_PER_CORE = 4


def prepare(work: Work, number: int) -> None:
    pass


def append(table: str, paths: list[str], form: str = "ndjson", *, threads: bool = False) -> int:
    """Parses the files, appends them, and returns the number of commits. `threads`: pyarrow's own, as it uses them by
    default."""
    import pyarrow as pa
    from deltalake import write_deltalake

    from benchmarks.contenders.arrow_read import READ
    from benchmarks.contenders.arrow_schema import with_date

    read = READ[form]
    gathered: list[pa.Table] = []
    commits = rows = 0

    def flush() -> None:
        nonlocal commits, rows
        if gathered:
            write_deltalake(table, pa.concat_tables(gathered), mode="append")
            commits, rows = commits + 1, 0
            gathered.clear()

    for path in paths:
        parsed = read(path, threads)
        gathered.append(with_date(parsed, path))
        rows += parsed.num_rows
        if rows >= ROWS_PER_APPEND:
            flush()
    flush()
    return commits


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from deltalake import DeltaTable
    from deltalake import Schema as DeltaSchema

    from benchmarks.contenders.arrow_schema import DATE, schema_of, shares

    with ProcessPoolExecutor(work.cores, mp_context=get_context("spawn")) as pool:

        def run(number: int) -> dict[str, Any]:
            table = work.table(number)
            form = work.data.format
            schema = DeltaSchema.from_arrow(schema_of(form).append(DATE))
            DeltaTable.create(table, schema=schema, partition_by=["date"])
            parts = shares(work.paths(), SHARES_PER_CORE * work.cores)
            made = pool.map(append, [table] * len(parts), parts, [form] * len(parts))
            return {"commits": 1 + sum(made)}

        yield run


def commits(work: Work, answer: dict[str, Any]) -> int:
    committed: int = answer["commits"]
    return committed
