"""Collects the fields that no column is for, and the values that do not fit their column, over the blocks of a pipeline
and the files of a task."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from blizzard.config.ddl import Type
from blizzard.state.unknown_fields import UnknownField, UnknownFields
from spark_job.formats.kinds import joined_kind, kind_ddl, kind_document, kind_from

MAX_NAMES = 1_000
"""That are kept while a batch is read."""
MAX_CHARACTERS = 200
"""Of a name; the rest is cut off."""


def _storable(name: str) -> str:
    """A key of JSON may have half of a surrogate pair, which no UTF-8 holds; it is shown as JSON writes it."""
    return name if name.isascii() else name.encode("utf-8", "backslashreplace").decode()


class FieldCount(NamedTuple):
    """`file`, `record`: the first that has the field, with a `kind` if one has. `kind`: of all its values; None: not
    collected, or of values that no wider column takes."""

    records: int
    file: str
    record: int
    kind: Type | None = None


class UnknownFieldCounts:
    """By name, the number of records and the first of them."""

    def __init__(self) -> None:
        self._found: dict[str, FieldCount] = {}
        self._more = 0

    def add(self, name: str, count: FieldCount) -> None:
        name = _storable(name)[:MAX_CHARACTERS]
        known = self._found.get(name)
        if known is not None:
            kind = joined_kind(known.kind, count.kind)
            first = count if known.kind is None and count.kind is not None else known
            self._found[name] = first._replace(records=known.records + count.records, kind=kind)
        elif len(self._found) < MAX_NAMES:
            self._found[name] = count
        else:
            self._more = 1  # names that are not kept cannot be told apart

    def merge(self, other: "UnknownFieldCounts") -> None:
        for name, count in other._found.items():
            self.add(name, count)
        self._more = max(self._more, other._more)

    def as_document(self) -> dict[str, object]:
        return {
            "found": {name: [*count[:-1], kind_document(count.kind)] for name, count in self._found.items()},
            "more": self._more,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "UnknownFieldCounts":
        counts, found = cls(), document["found"]
        assert isinstance(found, Mapping)
        for name, (records, file, record, kind) in found.items():
            counts.add(name, FieldCount(records, file, record, kind_from(kind)))
        counts._more = int(str(document["more"]))
        return counts

    def result(self) -> UnknownFields:
        fields = [
            UnknownField(
                name,
                count.records,
                count.file,
                count.record,
                kind=None if count.kind is None else kind_ddl(count.kind),
            )
            for name, count in self._found.items()
        ]
        return UnknownFields.of(fields, self._more)


def merged(parts: Sequence[UnknownFieldCounts]) -> UnknownFields:
    together = UnknownFieldCounts()
    for part in parts:
        together.merge(part)
    return together.result()
