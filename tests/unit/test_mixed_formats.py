"""Sources with files of several formats: the configuration of rules, and tasks that read by them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from blizzard.storage.local import LocalStore
from blizzard.storage.s3_connection import S3Settings
from spark_job.formats.protocol import Limits
from spark_job.formats.read_rules import NO_RULE
from spark_job.formats.registry import open_format
from spark_job.table.schema import columns_of
from spark_job.tasks.batch_tasks import ReadTasks, Task
from spark_job.tasks.destination import Destination
from spark_job.tasks.provenance import Provenance
from spark_job.tasks.read_settings import ReadSettings
from spark_job.tasks.report import Report
from spark_job.write.data_file import TableLayout
from tests.unit.config_files import config, problems, source_lines
from tests.unit.table_files import parquet

RULES = """mixed:
  - {pattern: "**/*.csv*", format: csv, csv: {delimiter: ";"}}
  - {pattern: "**/*.parquet", format: parquet}
  - {pattern: "packed/d", format: ndjson, compression: gzip}
  - {pattern: "**/*.json", format: json}"""
ONE = "mixed: [{pattern: '**', format: csv}]"
INT = "schema: id INT"


def lines(rules: str, *more: str) -> str:
    return source_lines("uri: s3://landing", "format: mixed", *more, *rules.split("\n"))


def source(rules: str = RULES) -> Any:
    ((_, found),) = config(lines(rules, INT)).sources()
    return found


def test_rules_become_the_options_of_the_format_with_every_default() -> None:
    options = source().format_options["rules"]
    assert [(rule["pattern"], rule["format"], rule["compression"]) for rule in options] == [
        ("**/*.csv*", "csv", "auto"),
        ("**/*.parquet", "parquet", "auto"),
        ("packed/d", "ndjson", "gzip"),
        ("**/*.json", "json", "auto"),
    ]
    assert (options[0]["options"]["delimiter"], options[3]["options"]) == (";", {"records": None})
    assert source().row_ddl == "id INT"


def test_formats_with_the_same_schema_of_their_own_may_be_mixed() -> None:
    ((_, found),) = config(lines("mixed: [{pattern: '**', format: text, text: {whole: true}}]")).sources()
    assert found.row_ddl == "value STRING"


@pytest.mark.parametrize(
    ("rules", "more", "says"),
    [
        ("mixed: []", INT, "s.mixed: "),
        ("settle_delay_secs: 1", INT, "s.mixed: is missing; add rules"),
        ("mixed: [{format: csv}]", INT, "s.mixed[0].pattern: is missing; add it: Which of"),
        ("mixed: [{pattern: '**', format: mixed}]", INT, "s.mixed[0].format: found mixed, expected"),
        ("mixed: [{pattern: '**', format: csv, json: {}}]", INT, "s.mixed[0].json: has no effect with `format: csv`"),
        ("mixed: [{pattern: '**', format: xml}]", INT, "s.mixed[0].xml.row_tag: is missing"),
        ("mixed: [{pattern: '**', fromat: csv}]", INT, "s.mixed[0].fromat: unknown key; did you mean `format`?"),
        (ONE, "settle_delay_secs: 1", "s.schema: is missing"),
        (ONE, "schema: a ARRAY<INT>", "a field of CSV is one value"),
        (ONE, f"{INT}\n        compression: gzip", "s.compression: has no effect with `format: mixed`; move it"),
        ("mixed: [{pattern: '*', format: text}, {pattern: '**', format: csv}]", INT, "have a schema of their own"),
    ],
)
def test_a_rule_that_is_wrong_says_what_to_do(rules: str, more: str, says: str) -> None:
    assert any(says in problem for problem in problems(lines(rules, more)))


def test_rules_without_the_format_mixed_are_reported() -> None:
    (found,) = problems(source_lines("uri: s3://landing", INT, ONE))
    assert "s.mixed: has no effect with `format: ndjson`, only with mixed" in found


def read_by_rules(folder: Path, bodies: dict[str, bytes], *, together: bool) -> list[Report]:
    landing = LocalStore(folder / "landing")
    for path, body in bodies.items():
        landing.put(path, body)
    layout, provenance = TableLayout("", (), (), 32, 1 << 27), Provenance("p:s", 7, {})
    destination = Destination(str(folder / "table"), layout, "deferred/", columns_of("id INT").json(), provenance)
    (folder / "table").mkdir()
    settings = ReadSettings("mixed", "none", Limits(), options=source().format_options)
    task = ReadTasks(Task(str(folder / "landing"), S3Settings(), settings, destination).to_json())
    files = [(path, len(body), 0, None, None, (), None) for path, body in bodies.items()]
    batches = [files] if together else [[file] for file in files]
    return [Report.from_json(task(json.dumps(batch))) for batch in batches]


@pytest.mark.parametrize("together", [True, False])
def test_each_file_is_read_by_the_first_rule_that_matches(tmp_path: Path, together: bool) -> None:
    bodies = {
        "a.csv": b"id;x\n1;2\nx;3\n",
        "b/b.parquet": parquet(pa.table({"id": pa.array([3], pa.int32())})),
        "packed/c.csv.gz": gzip.compress(b"id\n4\n"),
        "packed/d": gzip.compress(b'{"id": 5, "y": 1}\n{"id": '),
        "e.json": b'[{"id": 6}]',
        "f.txt": b"7",
    }
    reports = read_by_rules(tmp_path, bodies, together=together)
    tables = [pq.read_table(tmp_path / "table" / file.path) for report in reports for file in report.data_files]
    found = {(row["_source"]["file"], row["_source"]["row"]): row["id"] for t in tables for row in t.to_pylist()}
    expected = {"a.csv": 1, "b/b.parquet": 3, "packed/c.csv.gz": 4, "packed/d": 5, "e.json": 6}
    assert found == {(path, 0): value for path, value in expected.items()}
    failed = {one.path: one.error for report in reports for one in report.outcomes if one.error is not None}
    assert failed == {"f.txt": NO_RULE}
    refused = [pq.read_table(tmp_path / "table" / file.path) for report in reports for file in report.deferred]
    assert sorted((row["file"], row["row"]) for t in refused for row in t.to_pylist()) == [
        ("a.csv", 1),
        ("packed/d", 1),
    ]
    unknown = [field for report in reports for field in report.unknown.result().fields]
    assert [field[:3] for field in sorted(unknown)] == [("x", 2, "a.csv"), ("y", 1, "packed/d")]


def test_undecided_records_are_left_to_the_format_that_leaves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only JSON does; the decision itself is tested with Spark."""
    mixed: Any = open_format("mixed", columns_of("id INT"), Limits(), source().format_options)
    monkeypatch.setattr(
        "spark_job.formats.json.json_records.decided_by_spark", lambda deferred, schema: (deferred, schema)
    )
    assert mixed.decide("the records") == ("the records", columns_of("id INT"))
