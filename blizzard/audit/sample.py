"""Reads some files of a source again, as the job reads them, and compares every value with the table's.

The job itself reads them: into a table of its own on the local disk, which has the columns of the audited one, from a
manifest that announces only these files.
"""

import json
import math
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from blizzard.audit.given_rows import given_rows
from blizzard.audit.later_fields import as_written
from blizzard.audit.report import SampleAudit
from blizzard.audit.sample_table import TABLE, Columns, columns_of, configuration, make_table, reading
from blizzard.audit.source import AuditedSource
from blizzard.audit.stored_rows import Rows, StoredRow, rows_of_files
from blizzard.config.model import Config
from blizzard.environment import variables
from blizzard.errors import BlizzardError, PermanentError
from blizzard.log import first_line
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.identity import SourceIdentity
from blizzard.storage.local import LocalStore
from blizzard.table.active_files import opened
from blizzard.table.own_process import in_own_process

SHOWN_VALUES = 5
"""So many different values of a file are in the answer."""


@dataclass(frozen=True, slots=True)
class Sample:
    """`files`: path, size, etag, time, how many rows the table has of it, and whether the ledger counts them."""

    source: AuditedSource
    version: int
    files: Sequence[Sequence[Any]]
    seed: str


def chosen(proposed: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """Of what the ranges have proposed, each with its hash."""
    return [file for _, file in sorted(proposed)[:count]]


def read_again(sample: Sample, config: Config, folder: Path) -> SampleAudit:
    """`folder`: an empty one, for the table with the rows that are read again."""
    if not sample.files:
        return SampleAudit(sample.seed)
    source = sample.source
    try:
        columns = in_own_process(columns_of, source.table_uri, sample.version, source.s3)
        _ingest(sample, columns, config, folder)
        sources = [
            SourceIdentity(pipeline.name, one.name, one.state_prefix)
            for pipeline, one in config.sources()
            if pipeline.table_uri == source.table_uri
        ]
        rows, given, differ = in_own_process(_compare, sample, columns.filled, str(folder / TABLE), sources)
    except BlizzardError as error:
        return SampleAudit(sample.seed, problem=str(error))
    return SampleAudit(sample.seed, len(sample.files), rows, given, differ)


def is_bad(sample: SampleAudit, gone: Mapping[str, int]) -> bool:
    """Whether the table has a value or a row that its file has not. Rows that it lacks may have been deleted; `gone`:
    how many are known to be, of files whose rows nobody has counted. More than that would be found by nothing else."""
    return any(
        file["values"] or file["rows_added"] or file["rows_missing"] > gone.get(file["path"], math.inf)
        for file in sample.differ
    )


def _ingest(sample: Sample, columns: Columns, config: Config, folder: Path) -> None:
    """Raises BlizzardError."""
    identity = sample.source.identity
    (folder / "config.json").write_text(configuration(config, identity, folder))
    (folder / TABLE).mkdir()
    store = LocalStore(folder / TABLE)
    make_table(store, columns, sample.seed)
    entries = [Entry(path, size, etag, modified_ts) for path, size, etag, modified_ts, *_ in sample.files]
    Manifest(store, identity.state_prefix, identity.source_id).append(entries, writer_id=sample.seed, now_ts=0.0)
    command = [
        sys.executable,
        "-m",
        "spark_job",
        "--config",
        str(folder / "config.json"),
        "--once",
        "--engine",
        "local",
    ]
    done = subprocess.run(command, env=dict(variables()), capture_output=True, text=True, check=False)
    if done.returncode:
        said = [event["error"] for event in map(_event, done.stdout.splitlines()) if "error" in event]
        why = first_line(said[-1] if said else done.stderr[-300:])
        raise PermanentError(f"the files could not be read again: {why}")


def _event(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _compare(
    sample: Sample, filled: frozenset[str], read: str, sources: Sequence[SourceIdentity]
) -> tuple[int, int, list[dict[str, Any]]]:
    """How many rows were read again, how many an operator has given, and what is different. Called in a process of its
    own. `filled`: as in Columns. `sources`: of the table."""
    source, wanted = sample.source, [path for path, *_ in sample.files]
    with reading("what was read again"):
        again = rows_of_files(LocalStore(Path(read)), opened(read, None, source.s3), source.identity.source_id, wanted)
    with reading("the table"):
        table = opened(source.table_uri, sample.version, source.s3)
        stored = rows_of_files(source.state, table, source.identity.source_id, wanted)
    odd_pairs = {
        key: (again[key], row) for key, row in stored.items() if key in again and different(again[key], row, filled)
    }
    for key, pair in as_written(source, sources, odd_pairs).items():
        again[key], stored[key] = pair
    odd = [row.of_commit(key) for key, row in stored.items() if key not in again or different(again[key], row, filled)]
    given = {each[:3] for each in given_rows(sample.source, odd)}
    mine, theirs = ({key: row for key, row in rows.items() if key not in given} for rows in (again, stored))
    return len(again), len(given), [*_differences(sample, filled, mine, theirs)]


def _differences(sample: Sample, filled: frozenset[str], again: Rows, stored: Rows) -> Iterator[dict[str, Any]]:
    for path, _, etag, *_ in sorted(sample.files, key=itemgetter(0)):
        mine, theirs = (
            {key[2]: row for key, row in rows.items() if key[:2] == (path, etag)} for rows in (again, stored)
        )
        values = [
            {"row": number, "column": column, "file": _text(one), "table": _text(other)}
            for number in sorted(mine.keys() & theirs.keys())
            for column, one, other in different(mine[number], theirs[number], filled)
        ]
        missing, added = len(mine.keys() - theirs.keys()), len(theirs.keys() - mine.keys())
        if values or missing or added:
            yield {
                "path": path,
                "rows_missing": missing,
                "rows_added": added,
                "values_different": len(values),
                "values": values[:SHOWN_VALUES],
            }


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def different(read: StoredRow, stored: StoredRow, filled: Collection[str] = ()) -> list[tuple[str, Any, Any]]:
    """The columns, by name, with both values. One that a row does not have is null there. `filled`: those that may have
    any value where the file has none."""
    columns = sorted(read.values.keys() | stored.values.keys())
    found = ((column, read.values.get(column), stored.values.get(column)) for column in columns)
    return [
        (column, one, other)
        for column, one, other in found
        if not _same(one, other) and not (one is None and column in filled)
    ]


def _same(one: object, other: object) -> bool:
    """A field that a struct does not have is null there."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(*each) for each in zip(one, other, strict=True))
    return one == other or repr(one) == repr(other)  # not a number is not equal to itself
