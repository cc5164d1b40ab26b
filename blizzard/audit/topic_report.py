"""What an audit of a source that reads topics answers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from blizzard.audit.report import Notice, Verdict
from blizzard.audit.strangers import Strangers


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """Messages of one partition that the brokers still have, from `first_offset` (where the source began, or the first
    one that is left) to before `next_offset` (what it reads next): `messages` = `committed` + `dead_lettered` +
    `missing`. `only_in_table`: rows of offsets in this range of which the brokers have no message any more, as after
    compaction. `older_rows`: rows before it. Of all that was ever read: `doubled`, offsets that are in more than one
    row, or in a row and a letter; `added`, rows that no commit has brought; `gone`, rows that were brought and are not
    there, both as far as receipts tell it of what the brokers do not have."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    end_offset: int
    messages: int = 0
    committed: int = 0
    dead_lettered: int = 0
    missing: int = 0
    doubled: int = 0
    added: int = 0
    gone: int = 0
    only_in_table: int = 0
    older_rows: int = 0


@dataclass(frozen=True, slots=True)
class TopicAuditReport:
    """`objects` = `committed` + `dead_lettered` + `missing` + `pending`, in messages; of the `pending` ones some may be
    offsets without a message. `lost`: offsets that were gone before they were read, by their dead letters, or since
    the source stands before them.
    `changed`: rows of another topic of the same name. `doubled`, `added`, `gone`: of all partitions, also of those that
    the brokers do not have; `unexplained`: rows that are gone, and that nobody has deleted by a commit. `others`: rows
    that name no configured source. `found`: by kind, ranges of offsets, at most NAMED of each."""

    source: str
    table_uri: str
    verdict: Verdict
    objects: int
    committed: int
    dead_lettered: int
    pending: int
    missing: int
    doubled: int
    changed: int
    lost: int
    rows: int
    table_version: int | None
    listed_at: float
    partitions: Sequence[PartitionAudit] = ()
    found: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    notices: Sequence[Notice] = ()
    added: int = 0
    gone: int = 0
    unexplained: int = 0
    others: Sequence[Strangers] = ()
    skipped: int = 0
    kind: str = "topics"
    digest: str = ""
    problem: None = None
    """Of a FailedAudit."""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


def digest_of(
    partitions: Sequence[PartitionAudit],
    found: Mapping[str, Sequence[Mapping[str, Any]]],
    totals: Sequence[int],
    others: Sequence[Strangers],
) -> str:
    """The same for two audits that found the same, whatever came meanwhile."""
    compared = [[value for name, value in asdict(one).items() if name != "end_offset"] for one in partitions]
    named = {kind: [dict(each) for each in some] for kind, some in found.items()}
    text = json.dumps([compared, named, [*totals], [(each.source, each.committed, each.rows) for each in others]])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
