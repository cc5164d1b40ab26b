"""Derived columns whose expression gives other values than rows have that are in the table: it was changed since."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from blizzard.config.expressions.tokens import names_in
from blizzard.errors import BlizzardError
from blizzard.table.added_files import added_files
from spark_job.against_table.files import cannot_be_told
from spark_job.engines.local.delta_errors import translating_delta_errors
from spark_job.engines.local.open_table import OpenTable
from spark_job.expressions.row_checker import RowChecker
from spark_job.expressions.rules import Derived, RowRules

ROWS_ASKED = 1_000
"""Of the newest data file: an expression that was changed and gives the same values for these is not found."""


def other_values(opened: OpenTable, source_id: str, rules: RowRules, derive: Mapping[str, str]) -> Iterator[str]:
    """Only of columns that tasks derive, in a table that deltalake reads."""
    # Of what the table stores as null, it is not known what the expression was given.
    unsure = {name.lower() for name in rules.empty_is_null}
    columns = [one for one in rules.of_tasks().derived if one.name in derive and not names_in(one.sql) & unsure]
    try:
        with translating_delta_errors("reading the newest rows of the table"):
            rows = _newest_rows(opened, source_id) if columns else None
    except BlizzardError as error:
        yield cannot_be_told("whether an expression of `derive` has changed", error)
        return
    if rows is None or not rows.num_rows:
        return
    columns = [one for one in columns if one.name in rows.column_names]
    read = rows.drop_columns([name for name in rows.column_names if name in derive])
    for column in columns:
        count = _different(rows, read, column, rules)
        if count:
            yield (
                f"{column.label} gives other values than {count:,} of the {rows.num_rows:,} newest rows that were "
                "looked at have: rows that are there keep theirs, and new rows have those of this expression"
            )


def _newest_rows(opened: OpenTable, source_id: str) -> pa.Table | None:
    """Some of the newest data file that has rows of the source; None: there is none."""
    table = opened.newest()
    if table is None or "_source" not in {field.name for field in table.schema().fields}:
        return None
    newest = next((unquote(file.path) for file in added_files(table) if file.may_hold(source_id)), None)
    found = table.to_pyarrow_dataset()
    fragment = next((one for one in found.get_fragments() if unquote(one.path) == newest), None)
    if fragment is None:
        return None
    rows = fragment.scanner(schema=found.schema).head(ROWS_ASKED)
    sources = pc.struct_field(rows.column("_source").combine_chunks(), "source")
    return rows.filter(pc.fill_null(pc.equal(sources, source_id), False))


def _different(rows: pa.Table, read: pa.Table, column: Derived, rules: RowRules) -> int:
    checked = RowChecker(replace(rules, derived=(column,), checks=())).apply(read)
    stored = rows.column(column.name)
    kept = stored if checked.kept is None else stored.take(checked.kept)
    pairs = zip(kept.to_pylist(), checked.rows.column(column.name).to_pylist(), strict=True)
    empty_is_null = column.name in rules.empty_is_null
    differ = sum(not _same(before, None if empty_is_null and now == "" else now) for before, now in pairs)
    return differ + len(checked.refused)


def _same(one: object, other: object) -> bool:
    """NaN is the same as NaN."""
    return one == other or (one != one and other != other)
