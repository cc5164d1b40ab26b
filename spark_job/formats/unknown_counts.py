"""Counts, record by record, the fields that no column is for and the columns with values that do not fit."""

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from blizzard.config.ddl import Type
from spark_job.formats.kinds import joined_kind
from spark_job.formats.protocol import Misfits, UnknownField

C = TypeVar("C", UnknownField, Misfits)


class _Counts(Generic[C]):
    """`found`: by name, as `Parsed` has them."""

    _made: type[C]

    def __init__(self) -> None:
        self.found: dict[str, C] = {}

    def add(self, names: Iterable[str] | Mapping[str, Type | None], number: int) -> None:
        """`names`: those of record `number`, each once, or their types by name. Records come in order."""
        kinds = names if isinstance(names, Mapping) else dict.fromkeys(names)
        for name in names:
            self._count(name, 1, number, kinds[name])

    def add_part(self, part: Mapping[str, C], start: int) -> None:
        """What was found in the next records, which are numbered from 0 there and from `start` here."""
        for name, found in part.items():
            self._count(name, found.records, start + found.first, found.kind)

    def _count(self, name: str, records: int, first: int, kind: Type | None) -> None:
        known = self.found.get(name) or self._made(0, first)
        if known.kind is not None or kind is None:
            first = known.first
        self.found[name] = self._made(known.records + records, first, joined_kind(known.kind, kind))


class UnknownCounts(_Counts[UnknownField]):
    _made = UnknownField


class MisfitCounts(_Counts[Misfits]):
    _made = Misfits
