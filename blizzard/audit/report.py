"""The answer of an audit."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from blizzard.audit.reach import Fate


class Verdict(StrEnum):
    GOOD = "good"
    NOTES = "notes"
    """Nothing is missing, doubled or changed, but something else is worth a look."""
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that is worth a look. `kind`: a word for programs; `text`: what it is, and what to do."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RowsAudit:
    """Rows of the source's files, those included that the source no longer has. `expected`: by the receipts. `deleted`,
    `added`: how many files have fewer or more than that. `problem`: why they were not compared."""

    expected: int = 0
    found: int = 0
    deleted: int = 0
    added: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SampleAudit:
    """Files that were read again. `seed`: what chose them. `differ`: what is different, by file."""

    seed: str
    files: int = 0
    rows: int = 0
    differ: Sequence[Mapping[str, Any]] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`objects` = `committed` + `dead_lettered` + `skipped` + `pending` + `missing`. `doubled` counts files whose rows
    are in the table more than once, `changed` those whose content is not the one in the table; both are counted as
    committed, too. `gone`: files that were settled, and that the source no longer has."""

    source: str
    table_uri: str
    verdict: Verdict
    objects: int
    committed: int
    dead_lettered: int
    skipped: int
    pending: int
    missing: int
    doubled: int
    changed: int
    gone: int
    skipped_by: Mapping[str, int]
    rows: RowsAudit
    names: Mapping[str, Sequence[Mapping[str, Any]]]
    partitions: Mapping[str, Mapping[str, int]]
    notices: Sequence[Notice]
    sample: SampleAudit | None
    repaired: int | None
    table_version: int | None
    sequence: int | None
    listed_at: float
    digest: str

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Tally:
    """What the ranges of an audit have found, added up."""

    fates: dict[str, Counter[str]] = field(default_factory=dict)
    skipped_by: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, list[Any]] = field(default_factory=dict)
    sequences: set[int] = field(default_factory=set)
    digest: int = 0
    sample: list[Any] = field(default_factory=list)

    def add(self, answer: Mapping[str, Any]) -> None:
        for partition, fates in answer["fates"].items():
            self.fates.setdefault(partition, Counter()).update(fates)
        self.skipped_by.update(answer["skipped_by"])
        self.counts.update(answer["counts"])
        for kind, names in answer["found"].items():
            self.found.setdefault(kind, []).extend(names)
        self.sequences.update(answer["sequences"])
        self.digest += int(answer["digest"], 16)
        self.sample.extend(answer["sample"])

    def total(self, fate: Fate) -> int:
        return sum(fates[fate] for fates in self.fates.values())

    def partitions(self) -> Iterator[tuple[str, dict[str, int]]]:
        for partition, fates in sorted(self.fates.items()):
            yield partition, {"objects": fates.total(), **{str(fate): fates[fate] for fate in Fate}}
