"""Blocks of JSON lines to Arrow, with exactly the values of Spark's `from_json`, or left to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_job.formats.lines import are_braced
from spark_job.formats.ndjson.arrow_reader import JsonReader, ReadFailed
from spark_job.formats.ndjson.bad_lines import Isolated, Isolation, Refused, reason
from spark_job.formats.ndjson.convert import DIGITS, arrow_type, convert, missing, read_by_digits
from spark_job.formats.ndjson.converted_column import ConvertedColumn
from spark_job.formats.ndjson.huge_exponents import holds_decimal, huge_exponent
from spark_job.formats.ndjson.line_objects import holds_map, styled, styles_of
from spark_job.formats.ndjson.map_columns import MapColumns, stand_in
from spark_job.formats.ndjson.odd_timestamps import holds_timestamp, odd_timestamp
from spark_job.formats.ndjson.parser_limits import Bounds
from spark_job.formats.ndjson.type_mismatch import type_mismatch
from spark_job.formats.protocol import Parsed

# Enough to see how times and decimals are written, though some lines have null.
_LOOK_AT_LINES = 20

# Of a decimal that a double takes for 0: there are exponents at which Spark gives up.
_LARGE_EXPONENT = r"[0-9.][eE][-+]?[0-9]{5,}[ \t\r,}\]]"


class NdjsonParser:
    """Parses records of one schema. It goes on reading numbers and times as the last block wrote them; that saves time
    and changes no value, so threads may share it."""

    def __init__(self, schema: StructType) -> None:
        types = [arrow_type(f.dataType) for f in schema]
        self._known = None not in types
        self._columns = schema
        self.schema: pa.Schema = pa.schema(
            [pa.field(f.name, pa.null() if t is None else t) for f, t in zip(schema, types, strict=True)]
        )
        """Of the records: what Spark's types are in Arrow, everything nullable."""
        with_maps = [f for f in schema if holds_map(f.dataType)]
        self._plain = StructType([f for f in schema if f not in with_maps])
        self._maps = MapColumns(with_maps)
        self._stand_ins = [found for f in with_maps if (found := stand_in(f)) is not None]
        # What Arrow reads.
        self._read = StructType([*self._plain, *self._stand_ins])
        self._reader = JsonReader(self._read)
        self._by_digits = frozenset(read_by_digits(self._plain, ""))
        self._bounds = Bounds(by_digits=bool(self._by_digits))
        # How the last block wrote what may come as number or text; replaced as a whole, since threads share it.
        self._styles: Mapping[str, str] = dict.fromkeys(self._by_digits, DIGITS)
        self._styled = frozenset(path for f in schema for path in styled(f.dataType, f.name)) - self._by_digits
        self._holds_decimal, self._holds_timestamp = holds_decimal(schema), holds_timestamp(schema)
        # The last block was read to its end before it failed: the next one is not tried as it is.
        self._fails_late = False

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        """`block`: UTF-8 lines divided by LF, none of them blank, no LF or CR at the end of any; b"" for none.

        `braced`: their number, from whoever knows already that each begins with { and ends with }.
        """
        parsed = self._parsed(block, braced)
        if all(why is not None for _, why in parsed.refused):
            return parsed
        refused = zip(parsed.refused, parsed.refused_texts, strict=True)
        return replace(parsed, refused=[(number, why or self._why(text)) for (number, why), text in refused])

    def _why(self, line: bytes) -> str | None:
        """Why Spark shall not be asked about a JSON object; None if it shall."""
        why = huge_exponent(line, self._columns) if self._holds_decimal else None
        why = why or (odd_timestamp(line, self._columns) if self._holds_timestamp else None)
        return why or type_mismatch(line, self._columns)

    def _parsed(self, block: bytes, braced: int | None) -> Parsed:
        if not block:
            return Parsed(self.schema.empty_table(), None, ())
        if not self._known:
            lines = block.split(b"\n")
            left = [(number, reason(line)) for number, line in enumerate(lines)]
            return Parsed(self.schema.empty_table(), (), left, lines)
        styles = self._styles_of(block)
        count = braced or block.count(b"\n") + 1
        if not ((braced or are_braced(block, count)) and self._bounds.hold(block)):
            return self._made(self._isolation(styles).isolated(block), styles)
        read, styles = (ReadFailed(None), styles) if self._fails_late else self._read_whole(block, count, styles)
        if isinstance(read, pa.Table):
            return self._made(Isolated(read, lambda: block.split(b"\n"), range(count), {}), styles)
        isolated = self._isolation(styles).isolated_values(block, count, read.column)
        self._fails_late = self._fails_late and len(isolated.refused) > 0
        return self._made(isolated, styles)

    def _styles_of(self, block: bytes) -> Mapping[str, str]:
        """As its first lines say; what these have null is as in the last block."""
        seen: dict[str, str] = {}
        lines = block.split(b"\n", _LOOK_AT_LINES)[:_LOOK_AT_LINES] if self._styled else []
        for line in lines:
            seen = self._styles_in(line) | seen
            if len(seen) == len(self._styled):
                break
        if any(self._styles.get(path) != style for path, style in seen.items()):
            self._styles = {**self._styles, **seen}
        return self._styles

    def _styles_in(self, line: bytes) -> dict[str, str]:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return {}
        if not isinstance(record, dict):
            return {}
        found = chain(*(styles_of(record.get(f.name), f.dataType, f.name) for f in self._columns))
        return {path: style for path, style in found if path in self._styled}

    def _read_whole(
        self, block: bytes, count: int, styles: Mapping[str, str]
    ) -> tuple[pa.Table | ReadFailed, Mapping[str, str]]:
        """A block in which nothing is wrong; no table for any other."""
        for may_learn in (True, False):
            try:
                table = self._reader.read(block, styles)
            except ReadFailed as failed:
                if failed.row is None or failed.row >= count:
                    self._fails_late = True
                    return failed, styles
                # Maybe the first lines have null what is written here for the first time.
                here = {**styles, **self._styles_in(block.split(b"\n", failed.row + 1)[failed.row])}
                if not may_learn or here == styles:
                    return failed, styles
                self._styles = styles = here
            else:
                return (table if table.num_rows == count else ReadFailed(None)), styles
        return ReadFailed(None), styles

    def _isolation(self, styles: Mapping[str, str]) -> Isolation:
        read = self._reader.read
        return Isolation(self._read, styles, self._bounds, lambda text: read(text, styles), self._reader.empty(styles))

    def _made(self, read: Isolated, styles: Mapping[str, str]) -> Parsed:
        columns = self._converted(read, styles)
        doubtful, zeros = set[int](), set[int]()
        for field in self._columns:
            column = columns[field.name]
            doubtful |= column.doubtful
            zeros |= column.zeros
            if not field.nullable:
                doubtful |= missing(column.values, None)
        if zeros:
            doubtful |= _with_large_exponent(read.lines(), zeros)
        records = pa.table([columns[field.name].values for field in self._columns], schema=self.schema)
        if not doubtful:
            return _parsed_of(records, read.numbers if read.refused else None, read.refused)
        lines = read.lines()
        left = {read.numbers[row]: Refused(lines[row], None) for row in doubtful}
        good = [row for row in range(records.num_rows) if row not in doubtful]
        numbers = [read.numbers[row] for row in good]
        return _parsed_of(records.take(pa.array(good, pa.int64())), numbers, {**read.refused, **left})

    def _converted(self, read: Isolated, styles: Mapping[str, str]) -> dict[str, ConvertedColumn]:
        def column(name: str) -> pa.Array:
            values = read.table.column(name)
            return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()

        columns = {f.name: convert(column(f.name), f.dataType) for f in self._plain}
        if len(columns) == len(self._columns):
            return columns
        there = {f.name: column(f.name) for f in self._stand_ins}
        return columns | self._maps.read(read.lines(), there, styles)


def _parsed_of(records: pa.Table, lines: Sequence[int] | None, refused: Mapping[int, Refused]) -> Parsed:
    ordered = sorted(refused.items())
    whys = [(number, line.why) for number, line in ordered]
    return Parsed(records, lines, whys, [line.text for _, line in ordered])


def _with_large_exponent(lines: Sequence[bytes], rows: set[int]) -> set[int]:
    ordered = sorted(rows)
    found = pc.match_substring_regex(pa.array([lines[row] for row in ordered], pa.binary()), _LARGE_EXPONENT)
    return {ordered[at] for at in pc.indices_nonzero(found).to_pylist()}
