"""The answer of an audit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from blizzard.audit.strangers import Strangers


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
    `added`: how many files have fewer or more than that. `gone`: rows that were committed and are no longer there,
    `unexplained` of which nobody has deleted by a commit. `problem`: why they were not compared."""

    expected: int = 0
    found: int = 0
    deleted: int = 0
    added: int = 0
    gone: int = 0
    unexplained: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SampleAudit:
    """Files that were read again. `seed`: what chose them. `given`: rows that differ because an operator has given them
    in place of refused records. `differ`: what else is different, by file."""

    seed: str
    files: int = 0
    rows: int = 0
    given: int = 0
    differ: Sequence[Mapping[str, Any]] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`objects` = `committed` + `dead_lettered` + `skipped` + `pending` + `missing`. `doubled` counts files whose rows
    are in the table more than once, `changed` those whose content is not the one in the table; both are counted as
    committed, too. `gone`: files that were settled, and that the source no longer has. `others`: rows of the table that
    name no configured source."""

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
    others: Sequence[Strangers]
    names: Mapping[str, Sequence[Mapping[str, Any]]]
    partitions: Mapping[str, Mapping[str, int]]
    notices: Sequence[Notice]
    sample: SampleAudit | None
    repaired: int | None
    table_version: int | None
    sequence: int | None
    listed_at: float
    digest: str
    problem: None = None
    """Of a FailedAudit."""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FailedAudit:
    """In place of the answer about a source that was not audited. `problem`: why. `names`: of the fields of the answer,
    in its document."""

    source: str
    table_uri: str
    problem: str
    names: Sequence[str]
    verdict: Verdict = Verdict.BAD
    notices: Sequence[Notice] = ()

    def as_document(self) -> dict[str, Any]:
        """What was not found out is null."""
        known = {"source": self.source, "table_uri": self.table_uri, "verdict": self.verdict, "problem": self.problem}
        return dict.fromkeys(self.names) | known
