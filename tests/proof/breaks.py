"""Deliberate faults of more than one campaign: their names, and faulty storage. Each replaces something around the
product, never the product itself."""

import json
from dataclasses import replace
from typing import Any

import spark_job.loop.files.source
from blizzard.ledger.keeper import LedgerKeeper
from blizzard.ledger.ledger import Ledger
from blizzard.state.checkpoint import Checkpoint
from blizzard.state.checkpoint_codec import read_copy
from blizzard.state.identity import SourceIdentity
from blizzard.storage.base import ObjectInfo, ObjectStore
from spark_job.ports.source import Recovered

UNCONDITIONAL_PUT = "a segment is written by an unconditional PUT"
TXN_NOT_COMPARED = "the Txn's version is not compared"
OLDER_STATE = "an older state is taken for the current one"
MARKS_ALONE = "a watermark passes a file that is in no segment"
NO_LOOK = "a commit is tried again without a look at what became of it"
NO_TXN = "rows are committed without their Txn"
TXN_ALONE = "a Txn is committed without its rows"
WIPED_BELIEVED = "a wiped manifest's marks are believed"
LATE_LETTERS = "letters of bad records are put after the commit"
OVERWRITING_LOG = "a commit is not a put-if-absent"
ROWS_LEFT_OUT = "a commit that lost its race is tried again without its rows"
BOTH_READS = "a batch that changes the schema commits the rows of both of its reads"
READ_BEFORE = "a batch for which a column is widened is committed as it was read before"
NARROWER_WINS = "a widening that lost its race is committed as it was planned"
TWO_RUNS = "a start's token is not honoured, and nobody looks for a run"


class _Around:
    """A store that creates segments in another way."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def create(self, key: str, data: bytes) -> ObjectInfo:
        return self._segment(key, data) if "/pending/" in key else self._store.create(key, data)

    def _segment(self, key: str, data: bytes) -> ObjectInfo:
        raise NotImplementedError


class Overwriting(_Around):
    """The second writer of a segment overwrites the first."""

    def _segment(self, key: str, data: bytes) -> ObjectInfo:
        return self._store.put(key, data)


class MarksAlone(_Around):
    """Only the marks of a sweep's segment are stored."""

    def _segment(self, key: str, data: bytes) -> ObjectInfo:
        document = json.loads(data)
        if document.get("sweep"):
            data = json.dumps({**document, "entries": []}).encode()
        return self._store.create(key, data)


class Believed(_Around):
    """The marks of a sweep do not name the segments that they rest on, so they hold whatever happened to those."""

    def _segment(self, key: str, data: bytes) -> ObjectInfo:
        document = json.loads(data)
        if sweep := document.get("sweep"):
            data = json.dumps({**document, "sweep": {**sweep, "relies_on": 10**9, "chain": None}}).encode()
        return self._store.create(key, data)


def older_state_as_current() -> None:
    """From now on, a job in this process resumes from the copy beside the table as if it were the newest state. It does
    not notice that its ledger lacks the commits since."""
    whole = spark_job.loop.files.source.recover

    def recover(table: Any, store: Any, identity: SourceIdentity, **more: Any) -> Recovered[Checkpoint]:
        found = whole(table, store, identity, **more)
        copy = read_copy(store, identity)
        return found if copy is None else replace(found, checkpoint=replace(copy, sequence=found.checkpoint.sequence))

    spark_job.loop.files.source.recover = recover
    LedgerKeeper._fill = without_gaps  # type: ignore[method-assign]


def without_gaps(keeper: LedgerKeeper, ledger: Ledger) -> Ledger:
    """In place of `LedgerKeeper._fill`: commits that the ledger lacks are taken for ones without files."""
    return ledger.with_parts(ledger.runs, ledger.recent)
