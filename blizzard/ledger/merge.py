"""Merging in the background: receipts become runs, small runs become larger ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from blizzard.background import Background
from blizzard.errors import BlizzardError
from blizzard.ledger.entry import LedgerEntry, merge_sorted
from blizzard.ledger.ledger import PARALLEL_READS, Ledger, RecentCommit, scan_run
from blizzard.ledger.run import Run
from blizzard.ledger.tiers import FACTOR, runs_to_merge
from blizzard.state.run_ref import SequenceRange


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """So many `commits`, or `files` of them, wait in receipts before they become a run. `factor` neighbouring runs of a
    tier become one of the next, in a thread of its own if `in_background`. A look-up makes up to `parallel_reads`
    requests at a time."""

    commits: int = 32
    files: int = 20_000
    factor: int = FACTOR
    in_background: bool = True
    parallel_reads: int = PARALLEL_READS


@dataclass(frozen=True, slots=True)
class MergeInput:
    """Neighbouring commits that become one run: runs, or the oldest recent commits."""

    runs: Sequence[Run] = ()
    recent: Sequence[RecentCommit] = ()

    @property
    def sequences(self) -> SequenceRange:
        if self.runs:
            return SequenceRange(self.runs[0].ref.first, self.runs[-1].ref.last)
        return SequenceRange(self.recent[0].sequence, self.recent[-1].sequence)

    @property
    def previous(self) -> str | None:
        return self.runs[0].index.previous if self.runs else self.recent[0].previous

    @property
    def files(self) -> int:
        """At most so many."""
        return sum(run.ref.files for run in self.runs) + sum(len(commit.entries) for commit in self.recent)

    def entries(self) -> Iterator[LedgerEntry]:
        """Sorted, one for each file. Raises RunUnreadable."""
        return merge_sorted(*map(scan_run, self.runs), *(sorted(commit.entries) for commit in self.recent))

    def belongs_to(self, ledger: Ledger) -> bool:
        """Whether the ledger still has all of it. After a lost race it may have other commits."""
        names, receipts = {ref.name for ref in ledger.refs}, {commit.receipt for commit in ledger.recent}
        return all(run.ref.name in names for run in self.runs) and all(c.receipt in receipts for c in self.recent)

    def replaced_by(self, run: Run, ledger: Ledger) -> Ledger:
        """The ledger with the run in place of this input."""
        names, receipts = {each.ref.name for each in self.runs}, {commit.receipt for commit in self.recent}
        kept = [each for each in ledger.runs if each.ref.name not in names]
        recent = [commit for commit in ledger.recent if commit.receipt not in receipts]
        return ledger.with_parts([*kept, run], recent, ledger.gaps)


def next_merge(ledger: Ledger, settings: LedgerSettings) -> MergeInput | None:
    """What to merge next; None if nothing is due. Runs come first: if commits come faster than merges end, the recent
    ones become one larger run, instead of ever more runs."""
    chosen = {ref.name for ref in runs_to_merge(ledger.refs, settings.factor)}
    if runs := [run for run in ledger.runs if run.ref.name in chosen]:
        return MergeInput(runs=runs)
    recent = _without_gap(ledger.recent)
    files = sum(len(commit.entries) for commit in recent)
    is_due = len(recent) >= settings.commits or files >= settings.files or len(recent) < len(ledger.recent)
    return MergeInput(recent=recent) if is_due else None


def _without_gap(recent: Sequence[RecentCommit]) -> Sequence[RecentCommit]:
    """The oldest commits that follow each other."""
    for at in range(1, len(recent)):
        if recent[at - 1].sequence + 1 != recent[at].sequence:
            return recent[:at]
    return tuple(recent)


WriteRun = Callable[[MergeInput], Run]


class Merge:
    """One merge, which begins at once. Nothing of the ledger changes before it is adopted. A process that ends
    meanwhile leaves nothing behind that counts."""

    def __init__(self, source: MergeInput, write: WriteRun, *, in_background: bool) -> None:
        self.source = source
        self.run: Run | None = None
        self.error: BlizzardError | None = None
        self._write = write
        self._background = Background(self._work, name="ledger-merge", in_background=in_background)

    @property
    def ended(self) -> bool:
        return self._background.ended

    def _work(self) -> None:
        try:
            self.run = self._write(self.source)
        except BlizzardError as error:
            self.error = error
