"""Lines that make the reader stop are left out, even if it reports a wrong place."""

from collections.abc import Mapping, Sequence

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from spark_job.formats.json.arrow_reader import ArrowJsonReader, ReadFailed
from spark_job.formats.json.bad_lines import BadLineSearch, GoodLines
from spark_job.formats.json.parser import NdjsonParser
from spark_job.formats.json.parser_limits import ParserLimits
from spark_job.formats.json.type_mismatch import type_mismatch

SCHEMA = StructType().add("id", StringType()).add("n", LongType()).add("value", DoubleType())
N, VALUE, TWO, CUT = "n", "value", "two", "cut"
HINTS = [None, "n", "value", "id", "no such column"]


class CountingReader:
    """Arrow's, of blocks in which nothing is wrong; `columns` are what it said of the others."""

    def __init__(self) -> None:
        self._reader = ArrowJsonReader(SCHEMA)
        self.columns: list[str | None] = []

    def __call__(self, block: pa.Buffer | bytes) -> pa.Table:
        try:
            return self._reader.read(block, {})
        except ReadFailed as failed:
            self.columns.append(failed.column)
            raise

    def empty(self) -> pa.Table:
        return self._reader.empty({})


def lines_of(faults: Sequence[str]) -> list[bytes]:
    """A line for each; "" has none."""
    made = []
    for number, fault in enumerate(faults):
        n = '"none"' if fault == N else number
        value = '"none"' if fault == VALUE else number / 4
        line = f'{{"id":"{number}","n":{n},"value":{value}}}'
        made.append(line + line if fault == TWO else line[:-6] + "}" if fault == CUT else line)
    return [line.encode() for line in made]


def search(lines: Sequence[bytes], column: str | None) -> tuple[GoodLines, CountingReader]:
    reader = CountingReader()
    isolation = BadLineSearch(SCHEMA, {}, ParserLimits(by_digits=False), reader, reader.empty())
    return isolation.search_objects(b"\n".join(lines), len(lines), column), reader


@pytest.mark.parametrize("column", HINTS)
def test_bad_values_outside_the_named_column_are_found_too(column: str | None) -> None:
    faults = [N if number % 7 == 3 else VALUE if number % 11 == 5 else "" for number in range(2000)]
    lines = lines_of(faults)
    found, _ = search(lines, column)
    good = [number for number, fault in enumerate(faults) if not fault]
    assert list(found.numbers) == good
    assert found.table.column("id").to_pylist() == [str(number) for number in good]
    assert found.lines() == [lines[number] for number in good]
    assert sorted(found.refused) == [number for number, fault in enumerate(faults) if fault]
    assert all(refused.why is None and refused.text == lines[number] for number, refused in found.refused.items())


def test_the_named_column_is_searched_first() -> None:
    """So often that lines are not left out one by one: only after a look at `n` does the reader stop at `value`."""
    lines = lines_of([N if number % 3 == 0 else VALUE if number % 3 == 1 else "" for number in range(300)])
    assert search(lines, "n")[1].columns[0] == "value"
    assert search(lines, "value")[1].columns[0] == "n"
    assert search(lines, None)[1].columns == []


@given(st.lists(st.sampled_from(["", "", "", N, VALUE, CUT]), min_size=1, max_size=200), st.sampled_from(HINTS))
def test_the_named_column_does_not_change_the_refused_lines(faults: list[str], column: str | None) -> None:
    lines = lines_of(faults)
    named, unnamed = search(lines, column)[0], search(lines, None)[0]
    assert list(named.numbers) == list(unnamed.numbers)
    assert named.refused == unnamed.refused
    assert named.table.equals(unnamed.table)


@given(st.lists(st.sampled_from(["", "", "", N, VALUE, TWO, CUT]), min_size=1, max_size=200), st.sampled_from(HINTS))
def test_each_line_is_accepted_or_refused_and_a_good_one_has_no_reason(faults: list[str], column: str | None) -> None:
    """Two objects on a line shift the rows that the reader speaks of, so Spark may get a good line to decide."""
    found, _ = search(lines_of(faults), column)
    assert sorted([*found.numbers, *found.refused]) == [*range(len(faults))]
    assert all(faults[number] == "" for number in found.numbers)
    assert all(refused.why is None for number, refused in found.refused.items() if faults[number] == "")
    assert found.table.column("id").to_pylist() == [str(number) for number in found.numbers]


def test_a_braced_block_gives_the_same_records() -> None:
    faults = [N if number % 7 == 3 else VALUE if number % 11 == 5 else "" for number in range(2000)]
    lines = lines_of(faults)
    parsed = NdjsonParser(SCHEMA).parse(b"\n".join(lines), braced=len(lines))
    assert parsed.positions == [number for number, fault in enumerate(faults) if not fault]
    reasons = {number: type_mismatch(lines[number], SCHEMA) for number, fault in enumerate(faults) if fault}
    assert dict(parsed.refused) == reasons


def test_the_column_of_a_failed_block_is_the_named_one(monkeypatch: pytest.MonkeyPatch) -> None:
    columns: list[str | None] = []

    class Noting(ArrowJsonReader):
        def read(self, block: pa.Buffer | bytes, styles: Mapping[str, str], *, unexpected: str = "ignore") -> pa.Table:
            try:
                return super().read(block, styles, unexpected=unexpected)
            except ReadFailed as failed:
                columns.append(failed.column)
                raise

    monkeypatch.setattr("spark_job.formats.json.parser.ArrowJsonReader", Noting)
    lines = lines_of([N if number % 3 == 0 else VALUE if number % 3 == 1 else "" for number in range(300)])
    parsed = NdjsonParser(SCHEMA).parse(b"\n".join(lines), braced=len(lines))
    assert parsed.positions == [*range(2, 300, 3)]
    assert columns[:2] == ["n", "value"]
