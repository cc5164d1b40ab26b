"""What an audit finds, range by range, and added up."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from blizzard.audit.left_out import OBJECTS_NOT_LISTED
from blizzard.audit.reach import Fate

MAX_NAMES = 1_000
"""As many files are named of what no sum of the answer needs: those with deleted rows, for example."""
_ALL_NAMED = ("doubled", "announced_absent")
_IN_DIGEST = (
    "doubled",
    "other_content",
    "rows_deleted",
    "rows_added",
    "letters_lost",
    "letters_doubled",
    OBJECTS_NOT_LISTED,
)
"""What no object's fate and number of rows tells."""
DIGEST_BYTES = 32


@dataclass(slots=True)
class Tally:
    """`fates`: by partition. `found`: the files that are worth a name, by what is wrong with them. `sequences`: the
    commits whose files it has met. `digest`: a sum, which does not depend on how the source was divided into ranges,
    of objects, files that are gone, and what was found to be wrong with either.
    `sample`: files that may be read again, each with its hash. `gone`: rows that the table lacks, by the sequence of
    the commit that brought them, or ANY_SEQUENCE. `gone_uncounted`: the same by path, of those files whose rows the
    ledger does not count; of a range only those that may be read again are passed on."""

    fates: dict[str, Counter[str]] = field(default_factory=dict)
    skipped_by: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    found: dict[str, list[Any]] = field(default_factory=dict)
    sequences: set[int] = field(default_factory=set)
    digest: int = 0
    sample: list[Any] = field(default_factory=list)
    gone: Counter[int] = field(default_factory=Counter)
    gone_uncounted: dict[str, int] = field(default_factory=dict)

    def name(self, kind: str, value: list[Any]) -> None:
        self.counts[kind] += 1
        if kind in _IN_DIGEST:
            self.digest += digest_of("\0".join(map(str, (kind, *value))))
        names = self.found.setdefault(kind, [])
        if kind in _ALL_NAMED or len(names) < MAX_NAMES:
            names.append(value)

    def forget(self, kind: str) -> None:
        """Files that something else explains."""
        self.found.pop(kind, None)
        self.counts.pop(kind, None)

    def to_json(self) -> str:
        sampled = {path for _, (path, *_) in self.sample}
        return json.dumps(
            {
                "fates": self.fates,
                "skipped_by": self.skipped_by,
                "counts": self.counts,
                "found": self.found,
                "sequences": sorted(self.sequences),
                "digest": f"{self.digest:x}",
                "sample": self.sample,
                "gone": [*self.gone.items()],
                "gone_uncounted": {path: rows for path, rows in self.gone_uncounted.items() if path in sampled},
            }
        )

    def add(self, answer: Mapping[str, Any]) -> None:
        """What `to_json` of another one says."""
        for partition, fates in answer["fates"].items():
            self.fates.setdefault(partition, Counter()).update(fates)
        self.skipped_by.update(answer["skipped_by"])
        self.counts.update(answer["counts"])
        for kind, names in answer["found"].items():
            self.found.setdefault(kind, []).extend(names)
        self.sequences.update(answer["sequences"])
        self.digest += int(answer["digest"], 16)
        self.sample.extend(answer["sample"])
        self.gone.update(dict(answer["gone"]))
        self.gone_uncounted.update(answer["gone_uncounted"])

    def total(self, fate: Fate) -> int:
        return sum(fates[fate] for fates in self.fates.values())

    def partitions(self) -> Iterator[tuple[str, dict[str, int]]]:
        for partition, fates in sorted(self.fates.items()):
            yield partition, {"objects": fates.total(), **{str(fate): fates[fate] for fate in Fate}}


def digest_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest())
