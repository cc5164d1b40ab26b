"""Deliberate faults of the ledger. Each replaces a part of it in the process that calls it; the product has no such
switch."""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from copy import copy

from blizzard.ledger import run_index
from blizzard.ledger.entry import LedgerEntry, entries_of
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import Ledger, RecentCommit
from blizzard.ledger.merge import MergeInput
from blizzard.ledger.path_filter import PathFilter
from blizzard.state import receipts
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.receipts import Receipt, Receipts, sequence_of
from blizzard.storage.base import ObjectStore
from tests.proof.ledger.damage import Damage, receipts_are_swapped_and_runs_deleted, runs_become_those_of_another_table

CLAIMS_MORE = "a run of the ledger claims a commit whose files it has not"
FALSE_NEGATIVES = "a filter of the ledger has false negatives"
OTHERS_RUN = "a run of another table is taken for one of the ledger"
HALF_MERGED = "a merge of the ledger that was killed half-way counts as whole"
SWAPPED_RECEIPT = "a receipt is not compared with its name"
LOST_MERGED = "of two jobs that merge the ledger at once the one that lost its race merges its own commit"


def run_claims_more() -> None:
    """The files of its newest commit are left out."""
    whole = MergeInput.entries

    def entries(source: MergeInput) -> Iterator[LedgerEntry]:
        return (entry for entry in whole(source) if entry.sequence < source.sequences.last)

    MergeInput.entries = entries  # type: ignore[method-assign]


def filter_with_false_negatives() -> None:
    """It does not know every second file."""
    whole = PathFilter.may_contain
    PathFilter.may_contain = lambda self, digest: digest % 2 == 0 and whole(self, digest)  # type: ignore[method-assign]


def any_run_is_ours() -> None:
    """The digest in the checkpoint fits each run."""
    run_index._digest = lambda data: "0" * 16


def half_a_merge_is_whole() -> None:
    """Of runs that were merged the result has the first half, as if nothing had come after it."""
    whole = MergeInput.entries

    def entries(source: MergeInput) -> Iterator[LedgerEntry]:
        found = [*whole(source)]
        return iter(found[: len(found) // 2] if source.runs else found)

    MergeInput.entries = entries  # type: ignore[method-assign]


class _AsAsked:
    """Storage whose receipts say that they are those that were asked for."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self, key: str) -> bytes:
        name = key.rpartition("/")[2]
        document = json.loads(gzip.decompress(self._store.get(key)))
        return gzip.compress(json.dumps(document | {"name": name, "sequence": sequence_of(name)}).encode())


def receipts_have_any_name() -> None:
    """Neither a digest of the content nor a field says which receipt it is."""
    whole = Receipts.get
    receipts._check_digest = lambda name, data: None

    def get(self: Receipts, name: str) -> Receipt:
        unnamed = copy(self)
        unnamed._store = _AsAsked(self._store)  # type: ignore[assignment]
        return whole(unnamed, name)

    Receipts.get = get  # type: ignore[method-assign]


def lost_commit_is_merged() -> None:
    """Two jobs merge at once, and the one that lost the race still believes in its own receipt: its runs say of that
    commit what never was."""
    whole = LedgerKeeper._at
    LedgerKeeper.forget = lambda self: None  # type: ignore[method-assign]

    def at(keeper: LedgerKeeper, checkpoint: Checkpoint) -> Ledger:
        expected, now = keeper._expected, (checkpoint.sequence, checkpoint.receipt)
        if expected is not None and expected.sequence == checkpoint.sequence and keeper._ledger is not None:
            own = RecentCommit(expected.sequence, expected.name, expected.previous, entries_of(expected))
            keeper._ledger.add(own)
            keeper._as_of, keeper._expected = now, None
        return whole(keeper, checkpoint)

    LedgerKeeper._at = at  # type: ignore[method-assign]


BREAKS: Mapping[str, Callable[[], None]] = {
    CLAIMS_MORE: run_claims_more,
    FALSE_NEGATIVES: filter_with_false_negatives,
    OTHERS_RUN: any_run_is_ours,
    HALF_MERGED: half_a_merge_is_whole,
    SWAPPED_RECEIPT: receipts_have_any_name,
    LOST_MERGED: lost_commit_is_merged,
}
SHOWN_BY: Mapping[str, Damage] = {
    OTHERS_RUN: runs_become_those_of_another_table,
    SWAPPED_RECEIPT: receipts_are_swapped_and_runs_deleted,
}
"""Damage without which the fault does not show. The other damages would only hide it for a while."""
