"""A lower bound of the time: read, decompress (isal), parse to Arrow (pyarrow.json) and write uncompressed Parquet
without dictionaries, with no table, state or engine."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.contenders.arrow_loop import UNSUPPORTED as LOOP_UNSUPPORTED

TITLE = "bare limit"
UNSUPPORTED = LOOP_UNSUPPORTED
BLOCK_BYTES = 8 << 20
GATHERED_BYTES = 32 << 20
"""Small files of one folder are parsed together, up to this size."""


def prepare(work: Work, number: int) -> None:
    pass


def write(folder: str, number: int, paths: list[str]) -> int:
    from itertools import groupby

    from benchmarks.contenders import date_of

    files = 0
    for day, group in groupby(paths, date_of):
        files += _write_day(Path(folder) / f"date={day}", number, [*group])
    return files


def _write_day(folder: Path, number: int, paths: list[str]) -> int:
    """Writes one Parquet file from files of one folder."""
    import pyarrow.parquet as pq

    from benchmarks.contenders.arrow_schema import EVENTS

    folder.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(folder / f"{number:05}.parquet", EVENTS, use_dictionary=False, compression="none") as writer:
        for block in _blocks(paths):
            writer.write_table(_parse(block))
    return 1


def _blocks(paths: list[str]) -> Iterator[bytes]:
    from isal import igzip

    gathered: list[bytes] = []
    size = 0
    for path in paths:
        body: bytes = igzip.decompress(Path(path).read_bytes())  # type: ignore[no-untyped-call, unused-ignore]
        gathered.append(body)
        size += len(body)
        if size >= GATHERED_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def _parse(block: bytes) -> Any:
    import pyarrow as pa
    from pyarrow import json as pj

    from benchmarks.contenders.arrow_schema import EVENTS

    options = pj.ParseOptions(explicit_schema=EVENTS, unexpected_field_behavior="ignore")
    threads = pj.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
    return pj.read_json(pa.BufferReader(block), parse_options=options, read_options=threads)


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    from benchmarks.contenders.arrow_schema import shares

    with ProcessPoolExecutor(work.cores, mp_context=get_context("spawn")) as pool:

        def run(number: int) -> dict[str, Any]:
            parts = shares(work.paths(), 4 * work.cores)
            return {"files": sum(pool.map(write, [work.table(number)] * len(parts), range(len(parts)), parts))}

        yield run


def commits(work: Work, answer: dict[str, Any]) -> None:
    return None
