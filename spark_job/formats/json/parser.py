"""The fast parser: blocks of JSON lines to Arrow, with exactly the values of Spark's `from_json`.

Spark decides the records for which that is not certain.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_job.formats.converted_column import ConvertedColumn, missing_in
from spark_job.formats.json.arrow_reader import ArrowJsonReader, ReadFailed, WatchingReader
from spark_job.formats.json.bad_lines import BadLineSearch, GoodLines, Refused, refusal_reason
from spark_job.formats.json.braced_lines import are_braced
from spark_job.formats.json.convert import DIGITS, arrow_type, convert, read_by_digits
from spark_job.formats.json.huge_exponents import contains_decimal, huge_exponent
from spark_job.formats.json.line_objects import contains_map, style_paths, written_styles
from spark_job.formats.json.map_columns import MapColumns, placeholder_column
from spark_job.formats.json.odd_timestamps import contains_timestamp, odd_timestamp
from spark_job.formats.json.parser_limits import ParserLimits
from spark_job.formats.json.type_mismatch import type_mismatch
from spark_job.formats.json.unknown_keys import UnknownKeys
from spark_job.formats.protocol import Parsed
from spark_job.formats.refusals import is_missing

# Enough to see the style of timestamps and decimals although some lines have null.
_STYLE_LINES = 20

NOT_JSON = "not JSON"
"""The beginning of the reason for a line that has no keys."""

# In a decimal that a double reads as 0: Spark refuses some of these exponents.
_LARGE_EXPONENT = r"[0-9.][eE][-+]?[0-9]{5,}[ \t\r,}\]]"


@dataclass(frozen=True, slots=True)
class Suspects:
    """Lines that may have keys without a column, and their numbers in the block."""

    lines: Callable[[], Sequence[bytes]]
    numbers: Sequence[int]


NO_SUSPECTS = Suspects(list, ())


class NdjsonParser:
    """Parses records of one schema.

    `styles` in this package: by column path, whether the lines write a decimal or timestamp as a number or as text
    (`NUMBER`, `TEXT` or `DIGITS` of `convert.py`), which Arrow's reader must know in advance. The parser first tries
    the styles of the last block. This saves time and changes no value, so threads may share the parser.
    """

    def __init__(self, schema: StructType, *, has_other_keys: bool = False) -> None:
        """`has_other_keys`: that objects have keys without a column is expected from the start."""
        types = [arrow_type(f.dataType) for f in schema]
        self._types_known = None not in types
        self._columns = schema
        self.schema: pa.Schema = pa.schema(
            [pa.field(f.name, pa.null() if t is None else t) for f, t in zip(schema, types, strict=True)]
        )
        """The schema of the parsed records, every column nullable."""
        with_maps = [f for f in schema if contains_map(f.dataType)]
        self._plain = StructType([f for f in schema if f not in with_maps])
        self._maps = MapColumns(with_maps)
        self._placeholders = [found for f in with_maps if (found := placeholder_column(f)) is not None]
        # The columns that Arrow reads.
        self._read = StructType([*self._plain, *self._placeholders])
        # A map's keys are none of the columns that Arrow reads.
        self._reader = ArrowJsonReader(self._read, has_other_keys=has_other_keys or bool(with_maps))
        self._unknown_keys = UnknownKeys(schema)
        self._by_digits = frozenset(read_by_digits(self._plain, ""))
        self._limits = ParserLimits(by_digits=bool(self._by_digits))
        # Styles of the last block, by path. Replaced as a whole, never changed, since threads share it.
        self._styles: Mapping[str, str] = dict.fromkeys(self._by_digits, DIGITS)
        self._style_paths = (
            frozenset(path for f in schema for path in style_paths(f.dataType, f.name)) - self._by_digits
        )
        self._has_decimal, self._has_timestamp = contains_decimal(schema), contains_timestamp(schema)
        # The last block failed only after it had been read to its end, so the next one is searched at once.
        self._fails_late = False

    def parse(self, block: bytes, *, braced: int | None = None) -> Parsed:
        """`block`: UTF-8 lines divided by LF, none of them blank, no LF or CR at the end of any; b"" for none.

        `braced`: the number of lines, if the caller knows that each begins with { and ends with }.
        """
        parsed, suspects = self.read(block, braced=braced)
        if not suspects.numbers:
            return parsed
        return replace(parsed, unknown=self._unknown_keys.of(suspects.lines(), suspects.numbers))

    def read(self, block: bytes, *, braced: int | None = None) -> "tuple[Parsed, Suspects]":
        """As `parse`, without `unknown`: with the lines that may have keys without a column."""
        parsed, suspects = self._parse_block(block, braced)
        if all(why is not None for _, why in parsed.refused):
            return parsed, suspects
        refused = zip(parsed.refused, parsed.refused_texts, strict=True)
        reasons = [(number, why or self._certain_refusal(text)) for (number, why), text in refused]
        return replace(parsed, refused=reasons), suspects

    def _certain_refusal(self, line: bytes) -> str | None:
        """Why Spark would certainly refuse a JSON object, or must not get it; None if Spark decides."""
        why = huge_exponent(line, self._columns) if self._has_decimal else None
        why = why or (odd_timestamp(line, self._columns) if self._has_timestamp else None)
        return why or type_mismatch(line, self._columns)

    def _parse_block(self, block: bytes, braced: int | None) -> "tuple[Parsed, Suspects]":
        if not block:
            return Parsed(self.schema.empty_table(), None, (), ()), NO_SUSPECTS
        if not self._types_known:
            lines = block.split(b"\n")
            refused = [(number, refusal_reason(line)) for number, line in enumerate(lines)]
            return Parsed(self.schema.empty_table(), (), refused, lines), Suspects(lambda: lines, range(len(lines)))
        styles = self._current_styles(block)
        count = braced or block.count(b"\n") + 1
        if not ((braced or are_braced(block, count)) and self._limits.allow(block)):
            return self._searched(block, styles, lambda search: search.search(block))
        read, styles = (ReadFailed(None), styles) if self._fails_late else self._read_whole(block, count, styles)
        if isinstance(read, GoodLines):
            suspects = Suspects(read.lines, read.numbers) if read.may_have_other_keys else NO_SUSPECTS
            return self._to_parsed(read, styles), suspects
        column = read.column
        return self._searched(block, styles, lambda search: search.search_objects(block, count, column))

    def _searched(
        self, block: bytes, styles: Mapping[str, str], search: Callable[[BadLineSearch], GoodLines]
    ) -> "tuple[Parsed, Suspects]":
        """Of a block in which bad lines are searched for."""
        reader = WatchingReader(self._reader, styles)
        found = search(BadLineSearch(self._read, styles, self._limits, reader.read, self._reader.empty(styles)))
        self._fails_late = self._fails_late and len(found.refused) > 0
        parsed = self._to_parsed(found, styles)
        if reader.saw_unexpected:
            lines = block.split(b"\n")
            return parsed, Suspects(lambda: lines, range(len(lines)))
        refused = zip(parsed.refused, parsed.refused_texts, strict=True)
        objects = [(number, text) for (number, why), text in refused if why is None or not why.startswith(NOT_JSON)]
        return parsed, Suspects(lambda: [text for _, text in objects], [number for number, _ in objects])

    def _current_styles(self, block: bytes) -> Mapping[str, str]:
        """The styles of a block's first lines; where these have null, those of the last block."""
        seen: dict[str, str] = {}
        lines = block.split(b"\n", _STYLE_LINES)[:_STYLE_LINES] if self._style_paths else []
        for line in lines:
            seen = self._styles_of_line(line) | seen
            if len(seen) == len(self._style_paths):
                break
        if any(self._styles.get(path) != style for path, style in seen.items()):
            self._styles = {**self._styles, **seen}
        return self._styles

    def _styles_of_line(self, line: bytes) -> dict[str, str]:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return {}
        if not isinstance(record, dict):
            return {}
        found = chain(*(written_styles(record.get(f.name), f.dataType, f.name) for f in self._columns))
        return {path: style for path, style in found if path in self._style_paths}

    def _read_whole(
        self, block: bytes, count: int, styles: Mapping[str, str]
    ) -> tuple[GoodLines | ReadFailed, Mapping[str, str]]:
        """The table of a block without bad lines; otherwise where reading failed. With the styles that were used."""
        for may_learn in (True, False):
            try:
                table, may_have_other_keys = self._reader.read_all(block, styles)
            except ReadFailed as failed:
                if failed.row is None or failed.row >= count:
                    self._fails_late = True
                    return failed, styles
                # The first lines may have null where this line has the first value.
                here = {**styles, **self._styles_of_line(block.split(b"\n", failed.row + 1)[failed.row])}
                if not may_learn or here == styles:
                    return failed, styles
                self._styles = styles = here
            else:
                if table.num_rows != count:
                    return ReadFailed(None), styles
                return GoodLines(table, lambda: block.split(b"\n"), range(count), {}, may_have_other_keys), styles
        return ReadFailed(None), styles

    def _to_parsed(self, read: GoodLines, styles: Mapping[str, str]) -> Parsed:
        columns = self._convert_columns(read, styles)
        doubtful, underflowed, reasons = set[int](), set[int](), dict[int, str | None]()
        for field in self._columns:
            column = columns[field.name]
            doubtful |= column.doubtful
            underflowed |= column.underflowed
            for missing in missing_in(field, column, None):
                reasons = {**dict.fromkeys(missing.rows, is_missing(missing.path)), **reasons}
        if underflowed:
            doubtful |= _with_large_exponent(read.lines(), underflowed)
        # Another value of the record may be of a wrong type, which Spark would find first.
        reasons |= dict.fromkeys(doubtful)
        records = pa.table([columns[field.name].values for field in self._columns], schema=self.schema)
        if not reasons:
            return _parsed_of(records, read.numbers if read.refused else None, read.refused)
        lines = read.lines()
        not_accepted = {read.numbers[row]: Refused(lines[row], why) for row, why in reasons.items()}
        good = [row for row in range(records.num_rows) if row not in reasons]
        numbers = [read.numbers[row] for row in good]
        return _parsed_of(records.take(pa.array(good, pa.int64())), numbers, {**read.refused, **not_accepted})

    def _convert_columns(self, read: GoodLines, styles: Mapping[str, str]) -> dict[str, ConvertedColumn]:
        def column(name: str) -> pa.Array:
            values = read.table.column(name)
            return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()

        columns = {f.name: convert(column(f.name), f.dataType) for f in self._plain}
        if len(columns) == len(self._columns):
            return columns
        placeholders = {f.name: column(f.name) for f in self._placeholders}
        return columns | self._maps.read(read.lines(), placeholders, styles)


def _parsed_of(records: pa.Table, numbers: Sequence[int] | None, refused: Mapping[int, Refused]) -> Parsed:
    ordered = sorted(refused.items())
    reasons = [(number, line.why) for number, line in ordered]
    return Parsed(records, numbers, reasons, [line.text for _, line in ordered])


def _with_large_exponent(lines: Sequence[bytes], rows: set[int]) -> set[int]:
    ordered = sorted(rows)
    found = pc.match_substring_regex(pa.array([lines[row] for row in ordered], pa.binary()), _LARGE_EXPONENT)
    return {ordered[at] for at in pc.indices_nonzero(found).to_pylist()}
