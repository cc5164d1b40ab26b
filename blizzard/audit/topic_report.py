"""What an audit of a source that reads topics answers."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from blizzard.audit.report import Notice, Verdict


@dataclass(frozen=True, slots=True)
class PartitionAudit:
    """Messages of one partition that the brokers still have, from `first_offset` (where the source began, or the first
    one that is left) to before `next_offset` (what it reads next): `messages` = `committed` + `dead_lettered` +
    `missing`. `doubled`: that are in more than one row, or in a row and a letter. `only_in_table`: rows of offsets in
    this range of which the brokers have no message any more, as after compaction. `older_rows`: rows before it."""

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
    only_in_table: int = 0
    older_rows: int = 0


@dataclass(frozen=True, slots=True)
class TopicAuditReport:
    """`objects` = `committed` + `dead_lettered` + `missing` + `pending`, in messages; of the `pending` ones some may be
    offsets without a message. `lost`: offsets that were gone before they were read, by their dead letters, or since
    the source stands before them.
    `changed`: rows of another topic of the same name. `found`: by kind, ranges of offsets, at most NAMED of each."""

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
    skipped: int = 0
    kind: str = "topics"
    digest: str = ""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


def digest_of(partitions: Sequence[PartitionAudit], found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The same for two audits that found the same, whatever came meanwhile."""
    compared = [
        (one.topic, one.partition, one.first_offset, one.next_offset, one.committed, one.dead_lettered, one.missing)
        for one in partitions
    ]
    text = json.dumps([compared, {kind: [dict(each) for each in named] for kind, named in found.items()}])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
