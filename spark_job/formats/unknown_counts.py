"""Counts, record by record, the fields that no column is for."""

from collections.abc import Iterable, Mapping

from spark_job.formats.protocol import UnknownField


class UnknownCounts:
    """`found`: by name, as `Parsed.unknown`."""

    def __init__(self) -> None:
        self.found: dict[str, UnknownField] = {}

    def add(self, names: Iterable[str], number: int) -> None:
        """`names`: those of record `number`, each once. Records come in order."""
        for name in names:
            known = self.found.get(name) or UnknownField(0, number)
            self.found[name] = UnknownField(known.records + 1, known.first)

    def add_part(self, part: Mapping[str, UnknownField], start: int) -> None:
        """What was found in the next records, which are numbered from 0 there and from `start` here."""
        for name, field in part.items():
            known = self.found.get(name) or UnknownField(0, start + field.first)
            self.found[name] = UnknownField(known.records + field.records, known.first)
