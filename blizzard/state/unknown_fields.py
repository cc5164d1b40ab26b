"""Fields of files that no column is for, and values that do not fit their column: counted, so that nothing is dropped
unseen."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from blizzard.config.field_places import in_place, names_in
from blizzard.storage import json_fields

MAX_NAMES = 100
"""That are kept of one commit."""


class UnknownField(NamedTuple):
    """`records`: how many had it. `file`: the first that did; of values that do not fit, the first for which the column
    can be widened, if there is one and the source asks for that."""

    name: str
    records: int
    file: str
    record: int | None = None
    """The number of the first record in `file` that had it. None: of a version that did not say."""
    near: str | None = None
    """The column whose name differs in case only."""
    kind: str | None = None
    """The type of a column that holds its values, in DDL; only known if the source asks for it."""

    def as_document(self) -> dict[str, Any]:
        return {key: value for key, value in self._asdict().items() if value is not None}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "UnknownField":
        """Raises what `json_fields.MALFORMED` names."""
        record, near, kind = (document.get(key) for key in ("record", "near", "kind"))
        return cls(
            json_fields.text(document["name"]),
            json_fields.natural(document["records"]),
            json_fields.text(document["file"]),
            None if record is None else json_fields.natural(record),
            None if near is None else json_fields.text(near),
            None if kind is None else json_fields.text(kind),
        )

    def __str__(self) -> str:
        text = f"{self.name or '``'} (records: {self.records:,}, first in {self.file})"
        if self.near is None:
            return text
        column = next(iter(names_in(self.near)), self.near)
        is_inside = in_place(column) != self.near
        pair = f"{column}: {self.name}" if column == self.near else f"{json.dumps(column)}: {json.dumps(self.name)}"
        # Only a source that may add columns says the kind, and it may have added this one: `schema` need not have it.
        added = "" if self.kind is None else f", with {column} in schema"
        fields = "" if is_inside else f", or fields: {{{pair}}}{added}"
        return f"{text}: did you mean the column {self.near}? set keys: ignore_case{fields}"


@dataclass(frozen=True, slots=True)
class UnknownFields:
    """Of one commit, those of the most records first. `more`: how many other names there were, at least."""

    fields: tuple[UnknownField, ...] = ()
    more: int = 0

    @classmethod
    def of(cls, fields: Iterable[UnknownField], more: int = 0) -> "UnknownFields":
        ordered = sorted(fields, key=lambda field: (-field.records, field.name))
        return cls(tuple(ordered), more)

    def shortened(self) -> "UnknownFields":
        """As much of it as is stored and logged."""
        return UnknownFields(self.fields[:MAX_NAMES], self.more + max(0, len(self.fields) - MAX_NAMES))

    def with_near(self, columns: Mapping[str, str]) -> "UnknownFields":
        """With the columns that may be meant. `columns`: by the names of their keys in lower case."""
        found = (field._replace(near=columns.get(field.name.lower())) for field in self.fields)
        return UnknownFields(tuple(found), self.more)

    def as_document(self) -> dict[str, Any]:
        return {"fields": [field.as_document() for field in self.fields], "more": self.more}

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> "UnknownFields":
        """Raises what `json_fields.MALFORMED` names. None: of a version that did not count them."""
        if document is None:
            return cls()
        found = [json_fields.mapping(field) for field in json_fields.array(document["fields"])]
        return cls(tuple(map(UnknownField.from_document, found)), json_fields.natural(document["more"]))

    def __str__(self) -> str:
        shown = [str(one) for one in self.fields]
        return ", ".join(shown) + (f", and {self.more:,} more" if self.more else "")


NO_FIELDS = UnknownFields()
