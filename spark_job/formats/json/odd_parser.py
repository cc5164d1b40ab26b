"""The parser of a source with rules for data that is not as its schema says.

Lines without such data cost what they cost without rules. Others are looked at one by one, and parsed again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import SchemaRules
from spark_job.formats.json.exact_records import exact_record, is_exact, line_of, quick_record
from spark_job.formats.json.key_case import KeyCase
from spark_job.formats.json.learned_spelling import LearnedSpelling
from spark_job.formats.json.misfit_search import MisfitSearch, without_misfits
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.unknown_keys import UnknownKeys
from spark_job.formats.odd_data import OddRecord, OddValue, UnknownValues, outside
from spark_job.formats.protocol import Parsed, UnknownField


class OddJsonParser:
    """Parses as `NdjsonParser`, and finds what is odd: `Parsed.odd`."""

    def __init__(self, schema: StructType, rules: SchemaRules) -> None:
        self._rules = rules
        self._parser = NdjsonParser(schema)
        self._keys = UnknownKeys(schema)
        self._values = UnknownValues(schema)
        self._case = KeyCase(schema) if rules.ignores_case else None
        self._misfits = MisfitSearch(schema) if rules.rescues_misfits else None
        self._schema = schema
        # Of the last block that needed one. Replaced as a whole, since threads share it.
        self._spelling: LearnedSpelling | None = None

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        """As `NdjsonParser.parse`."""
        spelling, self._spelling = self._spelling, None
        if spelling is not None and (parsed := spelling.parse(block, braced=braced)) is not None:
            self._spelling = spelling
            return parsed
        parsed, suspects = self._parser.read(block, braced=braced)
        if not suspects.numbers and not parsed.refused:
            return parsed
        again = _Again(parsed, lambda lines: self._parser.read(b"\n".join(lines))[0])
        lines = dict(zip(suspects.numbers, suspects.lines(), strict=True)) if suspects.numbers else {}
        lines |= {number: text for (number, _), text in zip(parsed.refused, parsed.refused_texts, strict=True)}
        odd, respelled = self._look_at(lines)
        again.read(respelled, lines)
        self._learn(respelled, lines)
        if self._misfits is not None:
            self._take_out(self._misfits, again, lines, respelled, odd)
        unknown = {} if self._rules.looks_at_fields else self._counts({**lines, **respelled})
        return replace(again.parsed(), odd=odd, unknown=unknown)

    def _learn(self, respelled: Mapping[int, bytes], lines: Mapping[int, bytes]) -> None:
        """The spelling of most lines."""
        if 2 * len(respelled) > len(lines) and (record := quick_record(lines[min(respelled)])) is not None:
            self._spelling = LearnedSpelling(self._schema, self._parser.schema, record)

    def _counts(self, lines: Mapping[int, bytes]) -> Mapping[str, UnknownField]:
        numbers = sorted(lines)
        return self._keys.of([lines[number] for number in numbers], numbers)

    def _look_at(self, lines: Mapping[int, bytes]) -> tuple[dict[int, OddRecord], dict[int, bytes]]:
        """The unknown fields by line, and the lines whose keys are spelled otherwise, as the columns spell them."""
        odd, respelled = dict[int, OddRecord](), dict[int, bytes]()
        for number, line in lines.items():
            record = quick_record(line)
            if record is None:
                continue
            if self._case is not None and self._case.respell(record):
                if not is_exact(record):
                    record = exact_record(line) or record
                    self._case.respell(record)
                if (again := line_of(record)) is not None:
                    respelled[number] = again
            if self._rules.looks_at_fields and (unknown := self._unknown(record, line)):
                odd[number] = OddRecord(unknown, text=line)
        return odd, respelled

    def _unknown(self, record: dict[str, Any], line: bytes) -> list[OddValue]:
        """`record`: of the line, with its keys spelled like the columns."""
        found = self._values.of(record)
        if all(is_exact(one.value) for one in found) or (exact := exact_record(line)) is None:
            return found
        if self._case is not None:
            self._case.respell(exact)
        return self._values.of(exact)

    def _take_out(
        self,
        search: MisfitSearch,
        again: "_Again",
        lines: Mapping[int, bytes],
        respelled: Mapping[int, bytes],
        odd: dict[int, OddRecord],
    ) -> None:
        """The values that do not fit, of refused lines. Spark decides those of which it may accept another value."""
        refused = [number for number in sorted(again.refused) if quick_record(lines[number]) is not None]
        spelled = [respelled.get(number, lines[number]) for number in refused]
        taken = {}
        misfits, undecided = search.find(spelled) if refused else ({}, ())
        for at in undecided:
            if all(place.may_be_taken_out for place in misfits.get(at, ())):
                again.leave_to_spark(refused[at])
        for at, places in misfits.items():
            if at in undecided:
                continue
            exact = exact_record(spelled[at])
            found = without_misfits(exact, places) if exact is not None else None
            if found is not None:
                taken[refused[at]] = found
        good = again.read({number: line for number, (line, _) in taken.items()}, lines)
        for number in good:
            record = odd.setdefault(number, OddRecord(text=lines[number]))
            record.misfits = taken[number][1]
            if self._rules.rescues_fields:
                record.unknown = outside(record.unknown, record.misfits)


class _Again:
    """What became of a block's lines, some of which are read again in another form."""

    def __init__(self, parsed: Parsed, read: Callable[[Sequence[bytes]], Parsed]) -> None:
        self._first = parsed
        self._read = read
        self._tables = [parsed.records]
        self._numbers = [parsed.numbers]
        self._replaced = set[int]()
        self._changed = False
        texts = zip(parsed.refused, parsed.refused_texts, strict=True)
        self.refused: dict[int, tuple[str | None, bytes]] = {number: (why, text) for (number, why), text in texts}
        """The lines that are no rows so far."""

    def read(self, some: Mapping[int, bytes], lines: Mapping[int, bytes]) -> Sequence[int]:
        """Read these lines again, and return those that are rows now. `lines`: as the file has them."""
        if not some:
            return ()
        self._changed = True
        numbers = sorted(some)
        parsed = self._read([some[number] for number in numbers])
        good = [numbers[at] for at in parsed.numbers]
        self._replaced.update(numbers)
        for at, why in parsed.refused:
            self.refused[numbers[at]] = (why, lines[numbers[at]])
        for number in good:
            self.refused.pop(number, None)
        self._tables.append(parsed.records)
        self._numbers.append(good)
        return good

    def leave_to_spark(self, number: int) -> None:
        """A line that is no row so far."""
        self.refused[number] = (None, self.refused[number][1])
        self._changed = True

    def parsed(self) -> Parsed:
        if not self._changed:
            return self._first
        rows = [(number, row) for row, number in enumerate(self._numbers[0]) if number not in self._replaced]
        start = len(self._numbers[0])
        for numbers in self._numbers[1:]:
            rows += [(number, start + row) for row, number in enumerate(numbers)]
            start += len(numbers)
        rows.sort()
        refused = sorted(self.refused.items())
        return Parsed(
            pa.concat_tables(self._tables).take(pa.array([row for _, row in rows], pa.int64())),
            [number for number, _ in rows] if refused else None,
            [(number, why) for number, (why, _) in refused],
            [text for _, (_, text) in refused],
        )
