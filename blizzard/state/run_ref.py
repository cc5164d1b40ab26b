"""How a checkpoint names a run of the ledger."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blizzard.storage import json_fields

_NAME = re.compile(r"[0-9]{20}-[0-9]{20}-.+\.run")


@dataclass(frozen=True, slots=True, order=True)
class SequenceRange:
    """Commits of a source, both ends inclusive."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RunRef:
    """One run: an immutable object with the files of the commits from `first` through `last`, sorted by path.

    `id` makes its name unique. `filter_at` and `index_at` are where its filter and its index begin, and `size` is its
    size, in bytes: one request fetches what is needed. `digest` is that of its index, which has checksums of all other
    parts. So a run that is torn, or not the one that the checkpoint means, is recognised.
    """

    first: int
    last: int
    id: str
    files: int
    filter_at: int
    index_at: int
    size: int
    digest: str

    @property
    def name(self) -> str:
        return f"{self.first:020d}-{self.last:020d}-{self.id}.run"

    @property
    def range(self) -> SequenceRange:
        return SequenceRange(self.first, self.last)


def is_name(text: str) -> bool:
    """Whether it may be the name of a run. Other files in the ledger's folder are somebody else's."""
    return _NAME.fullmatch(text) is not None


def encode_ref(ref: RunRef) -> list[Any]:
    """As a JSON value."""
    return [ref.first, ref.last, ref.id, ref.files, ref.filter_at, ref.index_at, ref.size, ref.digest]


def decode_ref(value: object) -> RunRef:
    """Raises one of `json_fields.MALFORMED`."""
    first, last, run_id, files, filter_at, index_at, size, digest = json_fields.array(value)
    ref = RunRef(
        json_fields.natural(first),
        json_fields.natural(last),
        json_fields.text(run_id),
        json_fields.natural(files),
        json_fields.natural(filter_at),
        json_fields.natural(index_at),
        json_fields.natural(size),
        json_fields.text(digest),
    )
    if not (ref.first <= ref.last and ref.filter_at < ref.index_at < ref.size):
        raise ValueError(f"run {ref.name} has sizes or sequences that contradict each other")
    return ref


def ranges_without(runs: Sequence[SequenceRange], last: int) -> list[SequenceRange]:
    """The commits from 0 through `last` that none of the `runs` covers, newest first. `runs` do not overlap."""
    missing, upper = [], last
    for covered in sorted(runs, reverse=True):
        if covered.last < upper:
            missing.append(SequenceRange(covered.last + 1, upper))
        upper = min(upper, covered.first - 1)
    if upper >= 0:
        missing.append(SequenceRange(0, upper))
    return missing
