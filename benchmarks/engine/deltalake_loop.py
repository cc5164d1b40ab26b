"""`python -m benchmarks.engine.deltalake_loop LANDING TABLE PROCESSES`: what people with a small job would write.

It appends all files of a folder to a new table: no state, no dead letters, no exactly once. One process is the loop as
one writes it, with pyarrow's own threads. Several are the loop of somebody who has measured: pyarrow's threads cost
more than they save for files of ten records.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema

from benchmarks.contenders.arrow_loop import SHARES_PER_CORE, append
from benchmarks.contenders.arrow_schema import WITH_DATE, shares


def main(landing: str, table: str, processes: int) -> None:
    paths = sorted(str(path) for path in Path(landing).rglob("*.gz"))
    DeltaTable.create(table, schema=DeltaSchema.from_arrow(WITH_DATE), partition_by=["date"])
    if processes == 1:
        append(table, paths, threads=True)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = shares(paths, SHARES_PER_CORE * processes)
        list(pool.map(append, [table] * len(parts), parts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
