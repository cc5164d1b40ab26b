"""JSON: the elements of an array, or objects that follow each other, over however many lines."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from blizzard.config.schema_rules import NO_RULES, SchemaRules
from blizzard.state.dead_letters import Stage
from spark_job.formats.json.braced_lines import are_braced
from spark_job.formats.json.json_records import JsonRecords
from spark_job.formats.json.member_path import MemberPath, Tokens
from spark_job.formats.json.separated_objects import SeparatedObjects
from spark_job.formats.json.values import Values, ValueSplitter
from spark_job.formats.protocol import Content, FileFault, Limits, Parsed, UnknownField
from spark_job.formats.record_list import RecordList, all_broken, all_records, text_of
from spark_job.formats.transcode import Utf8Stream

_BLANKS = b" \t\r\n"


class JsonFormat:
    """The values of a record are those of a line of NDJSON."""

    def __init__(
        self, schema: StructType, limits: Limits, options: Mapping[str, Any], rules: SchemaRules = NO_RULES
    ) -> None:
        self._records = JsonRecords(schema, rules)
        self._limits = limits
        self._names: list[str] = options["records"].split(".") if options["records"] else []
        self._parser = self._records.parser
        self._objects = {in_array: SeparatedObjects(in_array=in_array) for in_array in (True, False)}

    def blocks(self, content: Content, *, first_record: int) -> Iterator[RecordList]:
        number = 0
        for found in self._values(content):
            if not found.count:
                continue
            block = RecordList(found.records(), number, found.broken)
            number += block.count
            if number > first_record:
                yield block.from_record(first_record)

    def _values(self, content: Content) -> Iterator[Values]:
        pieces = self._pieces(content)
        if self._names:
            tokens = Tokens(pieces, self._limits)
            path = MemberPath(tokens, self._names)
            path.enter()
            splitter = self._splitter(in_array=True)
            yield from _split(splitter, chain([tokens.take_rest()], pieces))
            tokens.give_back(splitter.rest or b"")
            path.leave()
            return
        begin = next((bare for piece in pieces if (bare := piece.lstrip(_BLANKS))), b"")
        if begin[:1] not in (b"[", b"{"):
            found = f"it begins with {begin[:20].decode(errors='replace')!r}" if begin else "it is empty"
            raise FileFault(Stage.PARSE, f"not JSON: {found}; expected an array of objects, or objects")
        in_array = begin.startswith(b"[")
        splitter = self._splitter(in_array=in_array)
        yield from _split(splitter, chain([begin[1:] if in_array else begin], pieces))
        for rest in chain([splitter.rest or b""], pieces):
            if bare := rest.strip(_BLANKS):
                after = bare[:20].decode(errors="replace")
                raise FileFault(Stage.PARSE, f"not JSON: found {after!r} after the end of its array")

    def _splitter(self, *, in_array: bool) -> ValueSplitter:
        return ValueSplitter(self._limits, self._objects[in_array], in_array=in_array)

    def _pieces(self, content: Content) -> Iterator[bytes]:
        stream, total = Utf8Stream(content.stream(), "utf-8"), 0
        while piece := stream.read(content.chunk_bytes):
            total += len(piece)
            self._limits.check_file_bytes(total)
            yield piece

    def parse(self, blocks: Sequence[RecordList]) -> Parsed:
        records, broken = all_records(blocks), all_broken(blocks)
        if not broken:
            return self._parse(text_of(records), len(records))
        taken = [number for number in range(len(records)) if number not in broken]
        some = [records[number] for number in taken]
        parsed = self._parse(b"\n".join(some), len(some))
        refused = {taken[number]: (why, text) for (number, why), text in _refused_of(parsed)}
        refused |= {number: (why, records[number]) for number, why in broken.items()}
        ordered = sorted(refused.items())
        return Parsed(
            parsed.records,
            [taken[number] for number in parsed.numbers],
            [(number, why) for number, (why, _) in ordered],
            [text for _, (_, text) in ordered],
            {name: UnknownField(found.records, taken[found.first]) for name, found in parsed.unknown.items()},
            odd={taken[number]: record for number, record in parsed.odd.items()},
        )

    def _parse(self, text: bytes, count: int) -> Parsed:
        return self._parser.parse(text, braced=count if are_braced(text, count) else None)

    def decide(self, deferred: DataFrame) -> DataFrame:
        return self._records.decide(deferred)


def _refused_of(parsed: Parsed) -> Iterator[tuple[tuple[int, str | None], bytes]]:
    return zip(parsed.refused, parsed.refused_texts, strict=True)


def _split(splitter: ValueSplitter, pieces: Iterator[bytes]) -> Iterator[Values]:
    """Until the end of the array, or of the text."""
    for piece in pieces:
        if piece:
            yield splitter.split(piece)
        if splitter.rest is not None:
            return
    yield splitter.finish()
