"""`python -m benchmarks.ledger.look_up URI BATCHES`: how long a new process needs to look files up in a stored ledger.

The first batch opens the ledger, as the first batch after the start of a job does. Without batches the ledger is only
opened, and asked which blocks may have 100 new files: for ledgers whose blocks cannot be read.
"""

import json
import random
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any

from benchmarks.counting_store import CountingStore
from benchmarks.ledger import random_names
from benchmarks.ledger.stored import IDENTITY
from benchmarks.suite.subprocess_run import peak_bytes
from blizzard.environment import variables
from blizzard.ledger.block_codec import decode_block
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import PARALLEL_READS, Ledger, open_ledger
from blizzard.ledger.path_filter import digest_of
from blizzard.ledger.run import Run
from blizzard.log import silent
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import CheckpointCodec
from blizzard.state.run_ref import SequenceRange
from blizzard.storage.open import open_store
from blizzard.storage.parallel_calls import ParallelCalls
from blizzard.storage.s3_connection import S3Settings

NEW = 100


class UnexpectedAnswer(Exception):
    """The ledger has other files than those that were written. (Importing `verify` would take memory.)"""


def measure(uri: str, batches: int) -> dict[str, Any]:
    """Seconds of the batches, and requests and bytes of the first one."""
    store = CountingStore(open_store(uri, S3Settings.from_environment(variables())))
    # A job that starts reads its checkpoint first, with the same connection.
    checkpoint = CheckpointCodec(store, IDENTITY).read_copy()
    store.requests = store.read_bytes = 0
    before = {"bytes_before": peak_bytes()}
    if not batches:
        return before | _opened_only(store, checkpoint)
    keeper = keeper_of(store)
    first = _secs(keeper, checkpoint, random_names.paths(NEW, "new, first"), known=0)
    answer = {"first_secs": first, "first_requests": store.requests, "first_bytes": store.read_bytes}
    at_once = store.requests
    new = [_secs(keeper, checkpoint, random_names.paths(NEW, f"new {n}"), known=0) for n in range(batches)]
    answer |= {"new_secs": new, "new_requests": (store.requests - at_once) / batches}
    before["peak_bytes"] = peak_bytes()  # the next step opens the ledger once more
    known = _known(store, checkpoint, batches)
    at_once = store.requests
    secs = [_secs(keeper, checkpoint, paths, known=len(paths)) for paths in known]
    answer |= {"known_secs": secs, "known_requests": (store.requests - at_once) / batches}
    return {**answer, **before}


def keeper_of(store: CountingStore) -> LedgerKeeper:
    return LedgerKeeper(store, IDENTITY, ask_table=_no_table, clock=time.time, new_id=lambda: "unused", log=silent)


def _no_table(sequences: SequenceRange) -> Sequence[Any]:
    raise UnexpectedAnswer(f"names: expected that the ledger has all commits, but the table was asked for {sequences}")


def _secs(keeper: LedgerKeeper, checkpoint: Checkpoint, paths: Sequence[str], *, known: int) -> float:
    """Raises UnexpectedAnswer unless the ledger knows this many of the files."""
    began = time.perf_counter()
    found = keeper.find(checkpoint, paths)
    secs = time.perf_counter() - began
    if len(found) != known:
        raise UnexpectedAnswer(f"names: expected {known} of {len(paths)} files in the ledger, found {len(found)}")
    return secs


def _known(store: CountingStore, checkpoint: Checkpoint, batches: int) -> list[list[str]]:
    """Batches of files of the runs, each file of a batch from another block of them, in no order."""
    ledger = open_ledger(store, IDENTITY, checkpoint, with_filters=False)
    blocks = [(run, number) for run in ledger.runs for number in range(len(run.index.starts))]
    rng = random.Random("known")
    chosen = [rng.sample(blocks, min(len(blocks), NEW)) for _ in range(batches)]
    first: dict[tuple[str, int], str] = {}
    with ParallelCalls(PARALLEL_READS, name="known") as calls:
        for run, number in chain.from_iterable(chosen):
            calls.submit(partial(_read_first, run, number, first))
    return [[first[run.ref.name, number] for run, number in batch] for batch in chosen]


def _read_first(run: Run, number: int, first: dict[tuple[str, int], str]) -> None:
    ((_, data),) = run.read(range(number, number + 1))
    first[run.ref.name, number] = next(iter(decode_block(data))).path


def _opened_only(store: CountingStore, checkpoint: Checkpoint) -> dict[str, Any]:
    began = time.perf_counter()
    ledger = open_ledger(store, IDENTITY, checkpoint, with_filters=True)
    secs = time.perf_counter() - began
    blocks = _blocks(ledger)
    return {"first_secs": secs, "first_bytes": store.read_bytes, "blocks": blocks, "peak_bytes": peak_bytes()}


def _blocks(ledger: Ledger) -> int:
    wanted = [(path, digest_of(path)) for path in random_names.paths(NEW, "new")]
    return sum(len(run.blocks_of(wanted)) for run in ledger.runs)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
