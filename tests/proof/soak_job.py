"""One life of the job under steady traffic, at the JVM that the environment names; leaks, where it is told to."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import spark_job.main
from blizzard.manifest import Manifest
from spark_job.ingest import Ingest
from spark_job.job import SourceJob
from tests.proof.kill_job import attached

LEAK_BYTES = 6 << 20
IDLE_SECS = 0.1
"""In place of the seconds that an idle job waits, which would be most of the campaign."""
_held: list[Any] = []


def live(words: Sequence[str], variant: str) -> int:
    spark_job.main.lazy_session = attached
    spark_job.main.POLL_SECS = IDLE_SECS  # type: ignore[attr-defined]
    if variant:
        LEAKS[variant]()
    return spark_job.main.main([*words])


def _after_each_step(do: Callable[[], object]) -> None:
    whole = Ingest._say_committed

    def said(self: Ingest, *given: Any) -> None:
        whole(self, *given)
        do()

    Ingest._say_committed = said  # type: ignore[method-assign]


def _keep_memory() -> None:
    _after_each_step(lambda: _held.append(os.urandom(LEAK_BYTES)))


def _keep_files_open() -> None:
    _after_each_step(lambda: _held.append(os.open(os.devnull, os.O_RDONLY)))


def _leave_segments() -> None:
    Manifest.trim = lambda self, position: 0  # type: ignore[method-assign]


def _never_sweep() -> None:
    SourceJob.sweep = lambda self, **given: None  # type: ignore[method-assign, assignment]


LEAKS: Mapping[str, Callable[[], object]] = {
    "memory is kept after each commit": _keep_memory,
    "a file stays open after each commit": _keep_files_open,
    "segments are not trimmed": _leave_segments,
    "no sweep ever settles a file": _never_sweep,
}
