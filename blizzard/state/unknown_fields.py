"""Fields of files that no column is for: they are not ingested, but counted, so that nothing is dropped unseen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from blizzard.storage import json_fields

MAX_NAMES = 100
"""That are kept of one commit."""


class UnknownField(NamedTuple):
    """`records`: how many had it. `file`: the first that did."""

    name: str
    records: int
    file: str


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """Of one commit, those of the most records first. `more`: how many other names there were, at least."""

    fields: tuple[UnknownField, ...] = ()
    more: int = 0

    @classmethod
    def of(cls, fields: Iterable[UnknownField], more: int = 0) -> "UnknownFields":
        ordered = sorted(fields, key=lambda field: (-field.records, field.name))
        return cls(tuple(ordered[:MAX_NAMES]), more + max(0, len(ordered) - MAX_NAMES))

    def as_document(self) -> dict[str, Any]:
        return {"fields": [field._asdict() for field in self.fields], "more": self.more}

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> "UnknownFields":
        """Raises what `json_fields.MALFORMED` names. None: of a version that did not count them."""
        if document is None:
            return cls()
        found = [json_fields.mapping(field) for field in json_fields.array(document["fields"])]
        fields = [
            UnknownField(
                json_fields.text(field["name"]), json_fields.natural(field["records"]), json_fields.text(field["file"])
            )
            for field in found
        ]
        return cls(tuple(fields), json_fields.natural(document["more"]))

    def __str__(self) -> str:
        shown = [f"{one.name} (records: {one.records:,}, first in {one.file})" for one in self.fields]
        return ", ".join(shown) + (f", and {self.more:,} more" if self.more else "")


NO_FIELDS = UnknownFields()
