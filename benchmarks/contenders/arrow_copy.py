"""pyarrow's own read and write: each file is read and written again as Parquet, in one process per core. There is no
table, no state, and no column for the folders' date."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work

TITLE = "pyarrow, read and write"
UNSUPPORTED: dict[str, str] = {}


def prepare(work: Work, number: int) -> None:
    pass


def copy(folder: str, number: int, paths: list[str], form: str) -> int:
    import pyarrow.parquet as pq

    from benchmarks.contenders.arrow_read import READ

    Path(folder).mkdir(parents=True, exist_ok=True)
    for at, path in enumerate(paths):
        pq.write_table(READ[form](path, False), f"{folder}/{number:05}-{at:05}.parquet")
    return len(paths)


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.arrow_schema import shares

    with ProcessPoolExecutor(work.cores, mp_context=get_context("spawn")) as pool:

        def run(number: int) -> dict[str, Any]:
            parts = shares(work.paths(), 4 * work.cores)
            folders, forms = [work.table(number)] * len(parts), [work.data.format] * len(parts)
            return {"files": sum(pool.map(copy, folders, range(len(parts)), parts, forms))}

        yield run


def commits(work: Work, answer: dict[str, Any]) -> None:
    return None
