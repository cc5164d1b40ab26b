"""Blizzard with files that arrive batch by batch in one folder: named in order, and named by random UUIDs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import Run, Work
from benchmarks.ledger import random_names
from benchmarks.s3_stand_in import adopt
from blizzard.environment import variables
from blizzard.storage.base import ObjectInfo

TITLE = "Blizzard"
UNSUPPORTED: dict[str, str] = {}
KINDS = ("in order", "random")
FOLDER = "date=2024-01-01"


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
        self._folder = str(Path(work.options["landing"], name))
        Path(self._folder, FOLDER).mkdir(parents=True)
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
        """New hard links in the source's folder; on S3 that is the folder of the stand-in's bucket."""
        paths = [self._names[number] for number in numbers]
        for number, path in zip(numbers, paths, strict=True):
            os.link(Path(self._data.folder, self._data.paths[number]), Path(self._folder, path))
        if self._folder == self._source:
            found = [info for path in paths if (info := self._job.files.head(path))]
        else:
            found = self._adopted(paths)
        self._job.announce_objects(found)

    def _adopted(self, paths: Sequence[str]) -> list[ObjectInfo]:
        bucket, _, prefix = self._source.partition("://")[2].partition("/")
        infos = adopt(variables()["AWS_ENDPOINT_URL"], bucket, [f"{prefix}/{path}" for path in paths])
        return [replace(info, key=path) for info, path in zip(infos, paths, strict=True)]
