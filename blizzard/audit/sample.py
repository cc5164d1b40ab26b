"""Reads some files of a source again, as the job reads them, and compares every value with the table's.

The job itself reads them: into a table of its own on the local disk, from a manifest that announces only these files.
"""

import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from blizzard.audit.given_rows import RowOfCommit, given_rows
from blizzard.audit.report import SampleAudit
from blizzard.audit.source import AuditedSource
from blizzard.config.model import Config
from blizzard.config.publish import to_published
from blizzard.environment import variables
from blizzard.log import first_line
from blizzard.manifest.pending_manifest import Manifest
from blizzard.manifest.segments import Entry
from blizzard.state.delta_log import LOG_FOLDER
from blizzard.storage.local import LocalStore
from blizzard.table.own_process import in_own_process
from blizzard.table.storage_options import storage_options

SHOWN_VALUES = 5
"""So many different values of a file are in the answer."""

Key = tuple[str, str, int]
"""File, etag and row number."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    """`values`: by column. `sequence`: of its commit; -1 if the row does not say."""

    values: Mapping[str, Any]
    sequence: int

    def equals(self, other: "StoredRow") -> bool:
        """In the columns that both have."""
        mine, theirs = self.values, other.values
        return all(_same(mine[column], theirs[column]) for column in mine.keys() & theirs.keys())

    def of_commit(self, key: Key) -> RowOfCommit:
        return RowOfCommit(*key, self.sequence)


Rows = dict[Key, StoredRow]


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
    problem = _ingest(sample, config, folder) if sample.files else None
    if problem is not None:
        return SampleAudit(sample.seed, problem=problem)
    if not sample.files:
        return SampleAudit(sample.seed)
    try:
        rows, given, differ = in_own_process(_compare, sample, str(folder / "table"))
    except (OSError, ValueError) as error:  # of deltalake and Arrow, about a data file
        return SampleAudit(sample.seed, problem=f"the table cannot be read: {first_line(str(error)):.300}")
    return SampleAudit(sample.seed, len(sample.files), rows, given, differ)


def is_bad(sample: SampleAudit, gone: Mapping[str, int]) -> bool:
    """Whether the table has a value or a row that its file has not. Rows that it lacks may have been deleted; `gone`:
    how many are known to be, of files whose rows nobody has counted. More than that would be found by nothing else."""
    return any(
        file["values"] or file["rows_added"] or file["rows_missing"] > gone.get(file["path"], math.inf)
        for file in sample.differ
    )


def _ingest(sample: Sample, config: Config, folder: Path) -> str | None:
    """Returns what went wrong."""
    identity = sample.source.identity
    document = json.loads(to_published(config))
    pipeline = document["pipelines"][identity.pipeline]
    sources = {identity.source: pipeline["sources"][identity.source]}
    pipeline |= {"table_uri": f"file://{folder}/table", "sources": sources, "linger_secs": 0}
    (folder / "config.json").write_text(json.dumps({"pipelines": {identity.pipeline: pipeline}}))
    (folder / "table").mkdir()
    entries = [Entry(path, size, etag, modified_ts) for path, size, etag, modified_ts, *_ in sample.files]
    manifest = Manifest(LocalStore(folder / "table"), identity.state_prefix, identity.source_id)
    manifest.append(entries, writer_id=sample.seed, now_ts=0.0)
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
    if done.returncode == 0:
        return None
    said = [event["error"] for event in map(_event, done.stdout.splitlines()) if "error" in event]
    return f"the files could not be read again: {first_line(said[-1] if said else done.stderr[-300:])}"


def _event(line: str) -> Mapping[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _compare(sample: Sample, read: str) -> tuple[int, int, list[dict[str, Any]]]:
    """How many rows were read again, how many an operator has given, and what is different. Called in a process of its
    own."""
    uri = sample.source.table_uri
    options = dict(storage_options(sample.source.s3)) if uri.startswith(("s3:", "s3a:")) else None
    is_there = any(True for _ in LocalStore(read).list(LOG_FOLDER))
    again = _rows(read, None, None, sample) if is_there else {}
    stored = _rows(uri, sample.version, options, sample)
    odd = [row.of_commit(key) for key, row in stored.items() if key not in again or not row.equals(again[key])]
    given = {each[:3] for each in given_rows(sample.source, odd)}
    mine, theirs = ({key: row for key, row in rows.items() if key not in given} for rows in (again, stored))
    return len(again), len(given), [*_differences(sample, mine, theirs)]


def _rows(uri: str, version: int | None, options: dict[str, str] | None, sample: Sample) -> Rows:
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    dataset = DeltaTable(uri, version=version, storage_options=options).to_pyarrow_dataset()
    source, file = pc.field("_source", "source"), pc.field("_source", "file")
    wanted = [path for path, *_ in sample.files]

    def of_sample(source: pc.Expression, file: pc.Expression) -> pa.Table:
        return dataset.to_table(filter=(source == sample.source.identity.source_id) & file.isin(wanted))

    try:
        found = of_sample(source, file)
    except pa.ArrowNotImplementedError:
        # deltalake's DELETE and UPDATE write texts of a type that Arrow cannot compare with statistics. Cast, they can
        # be compared, but then all rows are read.
        found = of_sample(source.cast(pa.string()), file.cast(pa.string()))
    rows: Rows = {}
    for row in found.to_pylist():
        source = row.pop("_source")
        sequence = -1 if source["sequence"] is None else source["sequence"]
        rows[source["file"], source["etag"], source["row"]] = StoredRow(row, sequence)
    return rows


def _differences(sample: Sample, again: Rows, stored: Rows) -> Iterator[dict[str, Any]]:
    for path, _, etag, *_ in sorted(sample.files, key=itemgetter(0)):
        mine, theirs = (
            {key[2]: row.values for key, row in rows.items() if key[:2] == (path, etag)} for rows in (again, stored)
        )
        values = [
            {
                "row": number,
                "column": column,
                "file": _text(mine[number][column]),
                "table": _text(theirs[number][column]),
            }
            for number in sorted(mine.keys() & theirs.keys())
            for column in sorted(mine[number].keys() & theirs[number].keys())
            if not _same(mine[number][column], theirs[number][column])
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


def _same(one: object, other: object) -> bool:
    return one == other or repr(one) == repr(other)  # not a number is not equal to itself
