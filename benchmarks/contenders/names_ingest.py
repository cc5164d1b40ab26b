"""Blizzard with files that arrive batch by batch in one folder: named in order, and named by random UUIDs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.ledger import random_names

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}
KINDS = ("in order", "random")
FOLDER = "date=2024-01-01"
PARALLEL_PUTS = 64


def prepare(work: Work, number: int) -> None:
    pass


def table_of(out: str, kind: str) -> str:
    return f"{out}/{kind.replace(' ', '-')}/0/table"


def names(kind: str, count: int) -> list[str]:
    """Names of the same form; those in order are UUIDs that count up."""
    if kind == "in order":
        return [f"{FOLDER}/{random_names.file_name(number << 64)}" for number in range(count)]
    return [f"{FOLDER}/{path.rpartition('/')[2]}" for path in random_names.paths(count, "ingest")]


@contextmanager
def opened(work: Work) -> Iterator[Run]:
    """Each batch of `batch` files arrives, is announced and drained for one kind of names, then for the other. The kind
    that begins changes with each batch. A small table for each kind warms the JVM up."""
    from benchmarks.contenders.session import session_of

    spark, each = session_of(work), work.options["batch"]
    for kind in KINDS:
        warm_up = _Arrivals(work, spark, kind, name=f"start-{kind}")
        for batch in range(2):
            warm_up.take(range(batch * 10, batch * 10 + 10))
    arrivals = [_Arrivals(work, spark, kind, name=kind) for kind in KINDS]

    def run(number: int) -> dict[str, Any]:
        batch, turn = divmod(number, len(KINDS))
        mine = arrivals[(turn + batch) % len(KINDS)]
        return mine.take(range(batch * each, min((batch + 1) * each, work.data.files)))

    yield run


class _Arrivals:
    """A source with its own table and job. `kind`: of the names."""

    def __init__(self, work: Work, spark: Any, kind: str, *, name: str) -> None:
        from benchmarks.contenders.long_running_job import LongRunningJob

        name = name.replace(" ", "-")
        source = f"{work.source_uri}/{name}"
        if "://" not in source:
            Path(source, FOLDER).mkdir(parents=True)
        self._kind = kind
        self._data = work.data
        self._names = names(kind, work.data.files)
        self._source = source
        self._job = LongRunningJob(replace(work, source=source, out=f"{work.out}/{name}"), spark)

    def take(self, numbers: Sequence[int]) -> dict[str, Any]:
        self._drop(numbers)
        answer = self._job.drain()
        judged = [event for event in self._job.events if event["event"] == "suspects_judged"]
        return {**answer, "kind": self._kind, "files": len(numbers), "suspects": sum(e["late"] for e in judged)}

    def _drop(self, numbers: Sequence[int]) -> None:
        from blizzard.storage.base import ObjectInfo
        from blizzard.storage.parallel_calls import ParallelCalls

        found: list[ObjectInfo] = []
        with ParallelCalls(1 if "://" not in self._source else PARALLEL_PUTS, name="drop") as calls:
            for number in numbers:
                calls.submit(partial(self._drop_one, number, found))
        self._job.announce_objects(found)

    def _drop_one(self, number: int, found: list[Any]) -> None:
        original, name = Path(self._data.folder, self._data.paths[number]), self._names[number]
        if "://" in self._source:
            found.append(self._job.files.put(name, original.read_bytes()))
            return
        os.link(original, Path(self._source, name))
        found.append(self._job.files.head(name))
