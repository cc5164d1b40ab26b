"""`python -m benchmarks.history [FILES …]`: what packing a history takes, and questions with and without packs.

Receipts are written as the job does it, a thousand commits on ten days, with the table's log and a ledger. Then they
are packed, and `blizzard files` is asked in this process. Requests and bytes are those for state; the source is empty,
as if all files had been deleted since: listing it takes the same with and without packs. Prints one JSON object a line.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.counting_store import CountingStore
from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY
from blizzard.audit.commits_of import CommitFinder
from blizzard.audit.lives import Life, Lives, literal_prefix
from blizzard.audit.question import Question as FilesWanted
from blizzard.audit.source import AuditedSource
from blizzard.cli.selection import given_paths
from blizzard.history.packer import DAY_SECS, HistorySettings, Packer
from blizzard.history.packs import get_packs, history_folder
from blizzard.ledger.entry import LedgerEntry, entries_of
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.run import write_run
from blizzard.log import silent
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.delta_log import WHOLE_LOG, DeltaLogTail, commit_key
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.base import ObjectStore
from blizzard.storage.local import LocalStore
from blizzard.storage.memory import MemoryStore
from blizzard.storage.s3_connection import S3Settings

SIZES = (100_000, 1_000_000)
COMMITS, DAYS = 1_000, 10
BEGIN_TS = random_names.TIME_MS // 1000 // 86_400 * DAY_SECS
END_TS = BEGIN_TS + DAYS * DAY_SECS
LIMIT = 1_000
"""As the command's default."""


@dataclass(frozen=True)
class CountedSource(AuditedSource):
    """Its state is counted, its files are gone."""

    counted: ObjectStore

    @property
    def files(self) -> ObjectStore:
        return MemoryStore(lambda: END_TS)

    @property
    def state(self) -> ObjectStore:
        return self.counted


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("files", nargs="*", type=int, default=SIZES, metavar="FILES")
    for files in parser.parse_args().files:
        with tempfile.TemporaryDirectory() as folder:
            store, paths = LocalStore(Path(folder)), random_names.paths(files, "history")
            checkpoint = made(store, paths)
            checkpoint = replace(checkpoint, history=packed(store, checkpoint, files))
            for question in questions(paths):
                answers = []
                for kept in (None, checkpoint.history):
                    _append(store, replace(checkpoint, sequence=checkpoint.sequence + 1, history=kept))
                    answers.append(asked(store, files, question, packed=kept is not None))
                assert answers[0] == answers[1]


@dataclass(frozen=True, slots=True)
class Question:
    """`limit`: None for all."""

    name: str
    globs: Sequence[str] = ()
    since_ts: float | None = None
    limit: int | None = LIMIT


def questions(paths: list[str]) -> Iterator[Question]:
    one = paths[len(paths) // 3]
    yield Question("one file", [one])
    yield Question("1,000 files of a folder", [f"{one.partition('/')[0]}/*"])
    yield Question("--since the last day, 1,000 files", since_ts=END_TS - DAY_SECS)
    yield Question("--since the last three days, all files", since_ts=END_TS - 3 * DAY_SECS, limit=None)


# -- the history


def made(store: ObjectStore, paths: list[str]) -> Checkpoint:
    """Of commits with as many files each."""
    rng, per_commit = random.Random("history"), -(-len(paths) // COMMITS)
    receipts, checkpoint = Receipts(store, IDENTITY.state_prefix), Checkpoint(IDENTITY.pipeline, IDENTITY.source)
    entries: list[LedgerEntry] = []
    for sequence in range(COMMITS):
        now_ts = BEGIN_TS + DAYS * DAY_SECS * sequence / COMMITS
        lines = [_line(rng, path, now_ts) for path in paths[sequence * per_commit : (sequence + 1) * per_commit]]
        receipt = receipts.put(
            sequence=sequence, attempt=f"{sequence:016x}", previous=checkpoint.receipt, now_ts=now_ts, lines=lines
        )
        checkpoint = replace(checkpoint, sequence=sequence, receipt=receipt.name, last_update_ts=now_ts)
        _append(store, checkpoint)
        entries += entries_of(receipt)
    run = write_run(
        store,
        ledger_folder(IDENTITY),
        sorted(entries),
        sequences=SequenceRange(0, COMMITS - 1),
        previous=None,
        source_id=IDENTITY.source_id,
        run_id="0",
        max_files=len(entries),
    )
    return replace(checkpoint, ledger=(run.ref,))


def _line(rng: random.Random, path: str, now_ts: float) -> ReceiptLine:
    error = "truncated gzip: it ends before its end mark, or other bytes follow it" if rng.random() < 0.001 else None
    found_by = "event" if rng.random() < 0.99 else "sweep"
    event_ts = round(now_ts - 60 * rng.random(), 3)
    rows = 0 if error else rng.randrange(1, 1_000)
    etag = f"{rng.getrandbits(128):032x}"
    return ReceiptLine(path, etag, rng.randrange(100, 100_000), rows, 0, event_ts, error, True, True, found_by)


def _append(store: ObjectStore, checkpoint: Checkpoint) -> None:
    """To the log. The commit after the last one is written anew for each question."""
    info = {"timestamp": round(1000 * checkpoint.last_update_ts) + 900, "userMetadata": encode(checkpoint)}
    txn = {"appId": IDENTITY.app_id, "version": checkpoint.sequence}
    actions = ({"commitInfo": info}, {"txn": txn})
    store.put(commit_key(checkpoint.sequence), "".join(json.dumps(action) + "\n" for action in actions).encode())


# -- what is measured


def packed(store: ObjectStore, checkpoint: Checkpoint, files: int) -> str:
    """The index of the packs."""
    counted = CountingStore(store)
    packer = Packer(
        counted,
        IDENTITY,
        lambda: DeltaLogTail(counted).commits(WHOLE_LOG),
        silent,
        HistorySettings(session_files=files),
    )
    began, used = time.monotonic(), time.process_time()
    index = packer.pack(checkpoint, END_TS)
    assert index is not None
    secs, cpu_secs = time.monotonic() - began, time.process_time() - used
    packs = get_packs(store, IDENTITY, index)
    assert sum(pack.files for pack in packs) == files
    receipts = sum(info.size for info in store.list(f"{IDENTITY.state_prefix}/receipts/"))
    size = sum(info.size for info in store.list(history_folder(IDENTITY)))
    _print(
        files=files,
        measured="packing",
        packs=len(packs),
        requests=counted.requests,
        writes=len(packs) + 1,
        read_mb=round(counted.read_bytes / 1e6, 1),
        secs=round(secs, 1),
        cpu_secs=round(cpu_secs, 1),
        receipt_bytes_a_file=round(receipts / files, 1),
        pack_bytes_a_file=round(size / files, 1),
        index_bytes=store.head(history_folder(IDENTITY) + index).size,  # type: ignore[union-attr]
    )
    return index


def asked(store: ObjectStore, files: int, question: Question, *, packed: bool) -> list[Life]:
    """The answer."""
    counted = CountingStore(store)
    source = CountedSource(**as_configured(), counted=counted)
    used = time.process_time()
    lives = Lives(source, literal_prefix([*question.globs]), given_paths(question.globs, "PATTERN").matches, END_TS)
    recent = (
        life
        for life in lives.wanted(FilesWanted(question.since_ts))
        if (life.announced_ts or 0.0) >= (question.since_ts or 0.0)
    )
    kept = [*islice(recent, question.limit)]
    of_lives = counted.requests, counted.read_bytes, time.process_time() - used
    used = time.process_time()
    complete = CommitFinder(source, lives.snapshot.checkpoint).complete(kept)
    _print(
        files=files,
        measured=question.name,
        packed=packed,
        answered=len(complete),
        with_commit=sum(life.committed_ts is not None for life in complete),
        commits=len({life.sequence for life in complete}),
        requests=counted.requests - of_lives[0],
        read_mb=round((counted.read_bytes - of_lives[1]) / 1e6, 2),
        cpu_secs=round(time.process_time() - used, 2),
        before_that={
            "requests": of_lives[0],
            "read_mb": round(of_lives[1] / 1e6, 2),
            "cpu_secs": round(of_lives[2], 2),
        },
    )
    return complete


def as_configured() -> dict[str, Any]:
    return {
        "identity": IDENTITY,
        "uri": "memory://landing/",
        "table_uri": "",
        "s3": S3Settings(),
        "pattern": "**",
        "prefix_template": None,
        "lookback": 1,
        "settle_delay_secs": 0.0,
        "late_overlap_secs": 0.0,
        "late_interval_secs": 86_400.0,
        "quiet_secs": 86_400.0,
        "overwrites_count": False,
        "slice_bytes": 1 << 30,
    }


def _print(**fields: Any) -> None:
    print(json.dumps({**fields, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
