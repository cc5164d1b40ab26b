"""`python -m benchmarks.engine.bare_process LANDING FOLDER PROCESSES`: the least that a process for this work can cost.

It reads, decompresses and parses all files of a folder, and writes Parquet files that belong to no table: nothing says
what is in, and nothing is committed.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.contenders.arrow_loop import SHARES_PER_CORE
from benchmarks.contenders.arrow_schema import shares
from benchmarks.contenders.bare_limit import write


def main(landing: str, folder: str, processes: int) -> None:
    paths = sorted(str(path) for path in Path(landing).rglob("*.gz"))
    if processes == 1:
        write(folder, 0, paths)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = shares(paths, SHARES_PER_CORE * processes)
        list(pool.map(write, [folder] * len(parts), range(len(parts)), parts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
