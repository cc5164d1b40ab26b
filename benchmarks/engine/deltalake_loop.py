"""`python -m benchmarks.engine.deltalake_loop LANDING TABLE CORES`: what people with a small job would write instead.

It appends all files of a folder to a new table: no state, no dead letters, no exactly once.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from benchmarks.contenders.arrow_loop import SHARES_PER_CORE, append
from benchmarks.contenders.arrow_schema import WITH_DATE, shares

ONE_PROCESS_FILES = 10
"""Fewer files are not worth other processes."""


def main(landing: str, table: str, cores: int) -> None:
    paths = sorted(str(path) for path in Path(landing).rglob("*.gz"))
    DeltaTable.create(table, schema=DeltaSchema.from_arrow(WITH_DATE), partition_by=["date"])
    if len(paths) <= ONE_PROCESS_FILES:
        append(table, paths)
        return
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        parts = shares(paths, SHARES_PER_CORE * cores)
        list(pool.map(append, [table] * len(parts), parts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
