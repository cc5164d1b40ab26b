"""`python -m benchmarks.questions [FILES …]`: what looking for some of so many ingested files takes.

As `blizzard files` and `blizzard plan` look. The ledger has the runs that merging leaves, with random names over 30
folders, which is the worst case. Each question is asked in a process of its own: of a source whose files are gone, and
of one that has them all and 100 new ones. Their listing is read from a local file, so that its requests do not count.
With `--every` it is also asked as versions before did: each file is looked at. Prints one JSON object a line.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.counting_store import CountingStore
from benchmarks.history import as_configured
from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY, make_ledger
from benchmarks.suite.subprocess_run import peak_bytes
from blizzard.audit.lives import Life, Lives, literal_prefix
from blizzard.audit.question import Question
from blizzard.audit.source import AuditedSource
from blizzard.cli.selection import given_paths
from blizzard.ledger.entry import FileState, LedgerEntry
from blizzard.ledger.ledger import open_ledger
from blizzard.state.checkpoint import encode
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.delta_log import commit_key
from blizzard.storage.base import ObjectInfo, ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore

SIZES = (100_000, 1_000_000)
NEW = 100
NOW_TS = 4_000_000_000.0
QUESTIONS = ("one file", "a pattern", "since", "state pending")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.questions", description=__doc__)
    parser.add_argument("files", nargs="*", type=int, default=SIZES, metavar="FILES")
    parser.add_argument("--every", action="store_true", help="ask also by looking at every file")
    parser.add_argument("--ask", nargs=3, metavar=("FOLDER", "QUESTION", "LISTED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        print(json.dumps(asked(*options.ask, every=options.every)))
        return
    for files in options.files:
        with tempfile.TemporaryDirectory() as folder:
            make_world(Path(folder), files)
            for asking in product(QUESTIONS, ("gone", "there"), ([], ["--every"])[: 1 + options.every]):
                command = [sys.executable, "-m", __spec__.name, "--ask", folder, *asking[:2], *asking[2]]
                answer = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                print(json.dumps({"files": files, **json.loads(answer.stdout)}), flush=True)


def make_world(folder: Path, files: int) -> None:
    """`table/` has the state, `listing` a line for each object."""
    table = folder / "table"
    make_ledger(table, files)
    store = LocalStore(table)
    checkpoint = CheckpointCodec(store, IDENTITY).read_copy()
    info = {"timestamp": 0, "userMetadata": encode(checkpoint)}
    actions = {"commitInfo": info}, {"txn": {"appId": IDENTITY.app_id, "version": checkpoint.sequence}}
    store.put(commit_key(0), "".join(json.dumps(action) + "\n" for action in actions).encode())
    entries = open_ledger(store, IDENTITY, checkpoint, with_filters=False).scan()
    new = (LedgerEntry(path, 0, "e", 1, 0, 0, 0, FileState.DONE) for path in sorted(random_names.paths(NEW, "new")))
    with (folder / "listing").open("w") as listing:
        for entry in merge(entries, new):
            listing.write(f"{entry.path} {entry.etag} {entry.size} {entry.time_ms / 1000}\n")


class ListedFiles(MemoryStore):
    """Its listing is a local file."""

    def __init__(self, file: Path) -> None:
        super().__init__(lambda: NOW_TS)
        self._file = file

    def list(self, prefix: str = "", *, start_after: str = "", recursive: bool = True) -> Iterator[ObjectInfo]:
        with self._file.open() as lines:
            for line in lines:
                if line.startswith(prefix):
                    key, etag, size, modified_ts = line.split()
                    yield ObjectInfo(key, int(size), etag, float(modified_ts))
                elif line > prefix:
                    return


@dataclass(frozen=True)
class StoredSource(AuditedSource):
    """Its state is counted, its files are listed."""

    counted: ObjectStore
    listed: ObjectStore

    @property
    def files(self) -> ObjectStore:
        return self.listed

    @property
    def state(self) -> ObjectStore:
        return self.counted


def asked(folder: str, question: str, listed: str, *, every: bool) -> dict[str, Any]:
    """In this process."""
    counted = CountingStore(LocalStore(Path(folder, "table")))
    objects = ListedFiles(Path(folder, "listing")) if listed == "there" else MemoryStore(lambda: NOW_TS)
    source = StoredSource(**as_configured(), counted=counted, listed=objects)
    began, used = time.monotonic(), time.process_time()
    answers = count(source, question, Path(folder), every=every)
    return {
        "question": question,
        "objects": listed,
        "every": every,
        "answers": answers,
        "secs": round(time.monotonic() - began, 2),
        "cpu_secs": round(time.process_time() - used, 2),
        "peak_mib": round(peak_bytes() / 2**20),
        "requests": counted.requests,
        "read_mb": round(counted.read_bytes / 1e6, 1),
        "load": os.getloadavg()[0],
    }


def count(source: AuditedSource, question: str, folder: Path, *, every: bool) -> int:
    """How many files are the answer."""
    globs, asked_for = _asked_for(question, folder)
    paths = given_paths(globs, "PATTERN")
    lives = Lives(source, literal_prefix(globs), paths.matches, NOW_TS)
    asked_for = replace(asked_for, expression=paths.bytes_expression())
    found = iter(lives) if every else lives.wanted(asked_for)
    return sum(_is_answer(asked_for, life) for life in found)


def _asked_for(question: str, folder: Path) -> tuple[list[str], Question]:
    match question:
        case "one file":
            with (folder / "listing").open() as lines:
                return [next(lines).split()[0]], Question()
        case "a pattern":
            return ["**/part-00000-0123*"], Question()
        case "since":
            return [], Question(since_ts=_newest_ts(folder) - 60)
        case _:
            return [], Question(states=frozenset({question.split()[-1]}))


def _newest_ts(folder: Path) -> float:
    checkpoint = CheckpointCodec(LocalStore(folder / "table"), IDENTITY).read_copy()
    return random_names.TIME_MS / 1000 + 60 * checkpoint.sequence


def _is_answer(asked_for: Question, life: Life) -> bool:
    came_ts = max(filter(None, (life.modified_ts, life.announced_ts)), default=0.0)
    return came_ts >= (asked_for.since_ts or 0.0) and (not asked_for.states or life.state in asked_for.states)


if __name__ == "__main__":
    main()
