"""Reads bytes by a registered format, for tests of single formats."""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blizzard.config.formats import FILE_FORMATS
from blizzard.config.schema_rules import NO_RULES, RESCUED, SchemaRules
from spark_job.formats.protocol import Limits, Misfits, UnknownField
from spark_job.formats.registry import open_format
from spark_job.formats.unknown_counts import MisfitCounts, UnknownCounts
from spark_job.table.schema import columns_of
from tests.unit.contents import CHUNK_BYTES, StoredContent

LIMITS = Limits(max_record_bytes=1 << 20)


@dataclass(frozen=True)
class Read:
    """What became of a file: its rows, and the reasons and texts of the refused records, both by record number."""

    rows: dict[int, dict[str, Any]]
    reasons: dict[int, str | None]
    texts: dict[int, bytes]
    unknown: dict[str, UnknownField]
    misfits: dict[str, Misfits]

    @property
    def values(self) -> list[dict[str, Any]]:
        return list(self.rows.values())


def read_file(
    name: str,
    ddl: str,
    stored: bytes,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    first_record: int = 0,
    limits: Limits = LIMITS,
    rules: SchemaRules = NO_RULES,
    **options: Any,
) -> Read:
    """`options`: of the format's block. With `rules` the columns have `_rescued`, too. Raises FileFault."""
    columns = columns_of(f"{ddl}, {RESCUED} STRING" if rules.rescues else ddl)
    file_format = open_format(name, columns, limits, options_of(name, options), rules)
    content = StoredContent(io.BytesIO(stored), chunk_bytes=chunk_bytes)
    rows, reasons, texts = dict[int, dict[str, Any]](), dict[int, str | None](), dict[int, bytes]()
    unknown, misfits = UnknownCounts(), MisfitCounts()
    for block in file_format.blocks(content, first_record=first_record):
        parsed = file_format.parse([block])
        unknown.add_part(parsed.unknown, block.first_record)
        misfits.add_part(parsed.misfits, block.first_record)
        for number, row in zip(parsed.numbers, parsed.records.to_pylist(maps_as_pydicts="strict"), strict=True):
            rows[block.first_record + number] = row
        for (number, reason), text in zip(parsed.refused, parsed.refused_texts, strict=True):
            reasons[block.first_record + number] = reason
            texts[block.first_record + number] = text
    assert not rows.keys() & reasons.keys()
    return Read(rows, reasons, texts, unknown.found, misfits.found)


def unknown_in(name: str, ddl: str, stored: bytes, **options: Any) -> Mapping[str, UnknownField]:
    """The fields of a file that no column is for; all its blocks are parsed together."""
    file_format = open_format(name, columns_of(ddl), LIMITS, options_of(name, options))
    blocks = [*file_format.blocks(StoredContent(io.BytesIO(stored)), first_record=0)]
    return file_format.parse(blocks).unknown


def options_of(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    block = FILE_FORMATS[name].options
    return {} if block is None else block(**options).model_dump(mode="json")
