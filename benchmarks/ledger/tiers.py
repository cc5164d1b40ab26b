"""The runs that a ledger has after many commits, found by merging their sizes as the job merges runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from blizzard.ledger.merge import LedgerSettings
from blizzard.ledger.tiers import runs_to_merge
from blizzard.state.run_ref import RunRef

SLACK = 1.1
"""A shape may have up to this many times the wanted files."""


@dataclass(frozen=True, slots=True)
class Shape:
    """`runs`: first sequence, last sequence and files of each. `recent`: commits that are in receipts only.
    `per_commit`: files of each commit."""

    runs: tuple[tuple[int, int, int], ...]
    recent: int
    per_commit: int

    @property
    def files(self) -> int:
        return sum(files for _, _, files in self.runs) + self.recent * self.per_commit

    @property
    def commits(self) -> int:
        return (self.runs[-1][1] + 1 if self.runs else 0) + self.recent


def shape_of(files: int, per_commit: int) -> Shape:
    """The shape with the most runs, which is the worst for a look-up, among those of at least so many files, and not
    many more."""
    settings = LedgerSettings()
    each = min(settings.commits, max(1, -(-settings.files // per_commit)))
    refs: list[RunRef] = []
    best: Shape | None = None
    commits = 0
    while (commits + each - 1) * per_commit <= max(SLACK * files, files + each * per_commit):
        shape = Shape(tuple((ref.first, ref.last, ref.files) for ref in refs), each - 1, per_commit)
        if shape.files >= files and (best is None or len(shape.runs) > len(best.runs)):
            best = shape
        refs.append(_ref(commits, commits + each - 1, each * per_commit))
        commits += each
        while chosen := runs_to_merge(refs):
            refs = _merged(refs, chosen)
    assert best is not None
    return best


def _merged(refs: Sequence[RunRef], chosen: Sequence[RunRef]) -> list[RunRef]:
    names = {ref.name for ref in chosen}
    made = _ref(chosen[0].first, chosen[-1].last, sum(ref.files for ref in chosen))
    return sorted([*(ref for ref in refs if ref.name not in names), made], key=lambda ref: ref.first)


def _ref(first: int, last: int, files: int) -> RunRef:
    return RunRef(first, last, "0", files, 0, 0, 0, "")
