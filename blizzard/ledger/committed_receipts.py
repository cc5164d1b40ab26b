"""Which receipts the commits in the table's log name: a chain that is broken goes on from there."""

from collections.abc import Iterable, Sequence

from blizzard.errors import UnreadableState
from blizzard.state import checkpoint as checkpoints
from blizzard.state.base import BaseRef, Settled
from blizzard.state.checkpoint import BaseUnreadable
from blizzard.state.delta_log import Commit
from blizzard.state.identity import SourceIdentity


class CommittedReceipts:
    """`commits`: those of the table, newest first. They are read as far back as somebody asks."""

    def __init__(self, commits: Iterable[Commit], identity: SourceIdentity) -> None:
        self._commits = iter(commits)
        self._identity = identity
        self._read: list[tuple[int, str | None]] = []
        """Sequences with the receipts that their checkpoints name, newest first."""

    def newest(self, upper: int) -> str | None:
        """What the newest commit of the source names whose sequence is at most `upper`. None: it names none, or the log
        does not reach back to it."""
        for sequence, receipt in self._read:
            if sequence <= upper:
                return receipt
        for commit in self._commits:
            ours = commit.txns.get(self._identity.app_id)
            if ours is None or (self._read and ours >= self._read[-1][0]):
                continue
            try:
                self._read.append((ours, self._named(commit, ours)))
            except UnreadableState:
                continue
            if ours <= upper:
                return self._read[-1][1]
        return None

    def _named(self, commit: Commit, sequence: int) -> str | None:
        """Raises UnreadableState."""
        pipeline, source = self._identity.pipeline, self._identity.source
        text = commit.user_metadata or ""
        try:
            found = checkpoints.decode(text, pipeline=pipeline, source=source, base_of=_no_base)
        except BaseUnreadable as error:
            found = error.rest
        if found.sequence != sequence:
            raise UnreadableState(f"the commit of sequence {sequence} has the checkpoint of {found.sequence}")
        return found.receipt


def _no_base(refs: Sequence[BaseRef]) -> Settled:
    """The receipt's name is in the commit itself."""
    raise UnreadableState("not asked for")
