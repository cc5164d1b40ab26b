"""A table whose log is files: a commit is one that is created exclusively, as Delta's is."""

import json
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from blizzard.errors import AlreadyExists, CommitOutcomeUnknown, LostRace
from blizzard.state.delta_log import Commit
from blizzard.storage.base import ObjectStore
from tests.proof.breaks import NO_LOOK, NO_TXN, OVERWRITING_LOG, TXN_NOT_COMPARED
from tests.proof.kill_calls.steps import Steps
from tests.unit.fakes import Calls, MemoryDelta, Row

OLD_STAY = "rows of a replaced file stay"
OUT_FIRST = "rows of a replaced file are taken out in a commit of their own"
BROKEN_REPLACES = frozenset({OLD_STAY, OUT_FIRST})
LOST_ANSWERS = 0.2
"""Share of the commits whose answer gets lost, where they do."""
WRITTEN = "the log is written"
"""The call that commits."""
LOOK_SECS = 0.02
"""How long a log that overwrites takes between its look and its write, so that others come in between."""


class FileDelta(MemoryDelta):
    """A log of commits in files, and what they left. Each read and each write is one of the process's `steps`. With
    `rng` the answer of a commit gets lost now and then."""

    def __init__(
        self, store: ObjectStore, steps: Steps | None = None, rng: random.Random | None = None, variant: str = ""
    ) -> None:
        super().__init__()
        self._store = store
        self._steps = steps or Steps()
        self._rng = rng
        self._variant = variant

    def load(self) -> None:
        """What others have committed."""
        self._steps("the log is read", self._load)

    def _load(self) -> None:
        known = f"{len(self.commits) - 1:020d}.commit" if self.commits else ""
        for info in [*self._store.list(start_after=known)]:
            document = json.loads(self._store.get(info.key))
            gone = set(document["without"])
            self.rows = [row for row in self.rows if row.path not in gone] + [row_of(row) for row in document["rows"]]
            self.columns |= frozenset(document["columns"])
            self.commits.append(Commit(len(self.commits), document["txns"], document["user_metadata"], None))

    def create(self) -> None:
        self.load()

    def commit(
        self,
        added: Iterable[Row],
        app_id: str,
        sequence: int,
        user_metadata: str | None,
        *,
        without: Iterable[str] = (),
        columns: frozenset[str] = frozenset(),
    ) -> None:
        rows, gone = [*added], [*without]
        if self._variant == NO_TXN and rows:
            self._commit(rows, {}, None, gone)
            rows, gone = [], []
        if self._variant == OUT_FIRST and gone:
            self._commit([], {}, None, gone)
        if self._variant in BROKEN_REPLACES:
            gone = []
        try:
            self._commit(rows, {app_id: sequence}, user_metadata, gone, columns)
            self._lose_the_answer()
        except CommitOutcomeUnknown:
            if self._variant != NO_LOOK:
                raise
            state = json.dumps({**json.loads(user_metadata or "{}"), "sequence": sequence + 1})
            self._commit(rows, {app_id: sequence + 1}, state, gone)

    def _lose_the_answer(self) -> None:
        if self._rng is not None and self._rng.random() < LOST_ANSWERS:
            raise CommitOutcomeUnknown("the answer was lost")

    def _has_txn(self, app_id: str, sequence: int) -> bool:
        return self._variant != TXN_NOT_COMPARED and super()._has_txn(app_id, sequence)

    def _commit(
        self,
        rows: list[Row],
        txns: dict[str, int],
        user_metadata: str | None,
        gone: list[str],
        columns: frozenset[str] = frozenset(),
    ) -> None:
        read_columns = self.columns
        self.load()
        if any(self._has_txn(app_id, sequence) for app_id, sequence in txns.items()):
            return
        document = {
            "txns": txns,
            "user_metadata": user_metadata,
            "without": gone,
            "rows": [asdict(row) for row in rows],
            "columns": sorted(columns),
        }
        text = json.dumps(document, default=sorted)
        while True:
            if self.columns != read_columns:
                raise LostRace("another commit has changed the metadata")
            before = len(self.commits)
            try:
                if self._variant == OVERWRITING_LOG:
                    time.sleep(LOOK_SECS)
                write = self._store.put if self._variant == OVERWRITING_LOG else self._store.create
                name = f"{before:020d}.commit"
                self._steps(WRITTEN, partial(write, name, text.encode()))
            except AlreadyExists as error:
                self.load()
                if self._variant != TXN_NOT_COMPARED and any(
                    app_id in commit.txns for app_id in txns for commit in self.commits[before:]
                ):
                    raise LostRace("another commit of the same source came first") from error
                continue
            self.load()
            return


def row_of(stored: Mapping[str, Any]) -> Row:
    return Row(**{**stored, "columns": frozenset(stored["columns"])})


class Loading(Calls):
    """Before the table is asked anything it takes over what others have committed; before the reader, nothing."""

    def __init__(self, delta: FileDelta) -> None:
        super().__init__()
        self._delta = delta

    def __call__(self, name: str) -> None:
        if name != "read":
            self._delta.load()
