"""Collects the fields that no column is for, over the blocks of a pipeline and the files of a task."""

from collections.abc import Mapping, Sequence

from blizzard.state.unknown_fields import UnknownField, UnknownFields

MAX_NAMES = 1_000
"""That are kept while a batch is read."""
MAX_CHARACTERS = 200
"""Of a name; the rest is cut off."""


class UnknownFieldCounts:
    """By name, the number of records and the first file."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}
        self._more = 0

    def add(self, name: str, records: int, file: str) -> None:
        name = name[:MAX_CHARACTERS]
        known = self._found.get(name)
        if known is not None:
            self._found[name] = (known[0] + records, known[1])
        elif len(self._found) < MAX_NAMES:
            self._found[name] = (records, file)
        else:
            self._more = 1  # names that are not kept cannot be told apart

    def merge(self, other: "UnknownFieldCounts") -> None:
        for name, (records, file) in other._found.items():
            self.add(name, records, file)
        self._more = max(self._more, other._more)

    def as_document(self) -> dict[str, object]:
        return {"found": self._found, "more": self._more}

    @classmethod
    def from_document(cls, document: Mapping[str, object]) -> "UnknownFieldCounts":
        counts, found = cls(), document["found"]
        assert isinstance(found, Mapping)
        for name, (records, file) in found.items():
            counts.add(name, records, file)
        counts._more = int(str(document["more"]))
        return counts

    def result(self) -> UnknownFields:
        fields = [UnknownField(name, records, file) for name, (records, file) in self._found.items()]
        return UnknownFields.of(fields, self._more)


def merged(parts: Sequence[UnknownFieldCounts]) -> UnknownFields:
    together = UnknownFieldCounts()
    for part in parts:
        together.merge(part)
    return together.result()
