"""Ledgers of any size, written directly: runs by `write_run` in all cores, receipts, and the checkpoint's copy."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.ledger import random_names
from benchmarks.ledger.tiers import Shape, shape_of
from blizzard.ledger.ledger import ledger_folder
from blizzard.ledger.run import write_run
from blizzard.state.checkpoint import Checkpoint, encode
from blizzard.state.identity import SourceIdentity
from blizzard.state.receipts import ReceiptLine, Receipts
from blizzard.state.run_ref import RunRef, SequenceRange
from blizzard.storage.local import LocalStore

IDENTITY = SourceIdentity("events", "landing", "_blizzard/events_landing")
MakeRun = Callable[[str, Shape, int], RunRef]


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger below a local folder. `stored_bytes`: of its runs, which have `files_in_runs`."""

    folder: str
    files: int
    runs: int
    files_in_runs: int
    stored_bytes: int


def make_ledger(folder: Path, files: int, make_run: "MakeRun | None" = None) -> StoredLedger:
    """A ledger of at least so many files, in runs as the job's merging leaves them. `make_run` writes one of them; it
    runs in another process."""
    shape = shape_of(files, per_commit=min(1_000, max(1, files // 100)))
    folder.mkdir(parents=True)
    largest_first = sorted(range(len(shape.runs)), key=lambda number: -shape.runs[number][2])
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        refs = [*pool.map(partial(make_run or _real_run, str(folder), shape), largest_first)]
    checkpoint = Checkpoint(
        IDENTITY.pipeline,
        IDENTITY.source,
        sequence=shape.commits - 1,
        ledger=tuple(sorted(refs, key=lambda ref: ref.first)),
    )
    checkpoint = replace(checkpoint, receipt=_put_receipts(LocalStore(folder), shape))
    LocalStore(folder).put(IDENTITY.copy_key, encode(checkpoint).encode())
    in_runs = sum(ref.files for ref in refs)
    return StoredLedger(str(folder), shape.files, len(refs), in_runs, sum(ref.size for ref in refs))


def receipt_name(sequence: int) -> str:
    """Of a commit that is in a run, whose receipt is not there."""
    return f"{sequence:020d}-benchmark.json.gz"


def _real_run(folder: str, shape: Shape, number: int) -> RunRef:
    first, last, files = shape.runs[number]
    return write_run(
        LocalStore(folder),
        ledger_folder(IDENTITY),
        random_names.entries(files, first, last, f"run {number} of {shape.files}"),
        sequences=SequenceRange(first, last),
        previous=receipt_name(first - 1) if first else None,
        source_id=IDENTITY.source_id,
        run_id=f"{number:016x}",
        max_files=files,
    ).ref


def _put_receipts(store: LocalStore, shape: Shape) -> str:
    """The receipts of the commits that no run has. Returns the name of the newest."""
    receipts, first = Receipts(store, IDENTITY.state_prefix), shape.commits - shape.recent
    newest = receipt_name(first - 1) if first else ""
    for sequence in range(first, shape.commits):
        lines = [*_lines(shape.per_commit, sequence)]
        newest = receipts.put(
            sequence=sequence, attempt="benchmark", previous=newest or None, now_ts=float(sequence), lines=lines
        ).name
    return newest


def _lines(count: int, sequence: int) -> Iterator[ReceiptLine]:
    for entry in random_names.entries(count, sequence, sequence, f"commit {sequence}"):
        yield ReceiptLine(entry.path, entry.etag, entry.size, entry.rows, 0, entry.time_ms / 1000)
