"""Zip files, from the folder to the table and to the dead letters."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tests.unit.local_runs import rows_in, run


def zipped(members: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return made.getvalue()


def named(folder: Path, column: str) -> list[tuple[Any, ...]]:
    return [(row[column], row["_source"]["file"], row["_source"].get("member")) for row in rows_in(folder)]


CSV = ("format: csv", "schema: id BIGINT")


def test_a_table_without_zip_files_gets_the_field_with_the_first(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id\n1\n")
    run(tmp_path, *CSV)
    assert "member" not in rows_in(tmp_path)[0]["_source"]
    (tmp_path / "in" / "b.zip").write_bytes(zipped({"x.csv": b"id\n2\n3\n", "y.csv": b"id\n4\nfour\n"}))
    run(tmp_path, *CSV)
    (tmp_path / "in" / "c.csv").write_text("id\n5\n")
    run(tmp_path, *CSV)
    assert named(tmp_path, "id") == [
        (1, "a.csv", None),
        (2, "b.zip", "x.csv"),
        (3, "b.zip", "x.csv"),
        (4, "b.zip", "y.csv"),
        (5, "c.csv", None),
    ]
    (letter,) = [json.loads(file.read_text()) for file in tmp_path.glob("table/_blizzard/*/dead_letters/*/*.ndjson")]
    assert (letter["path"], letter["row"], letter["member"], letter["raw"]) == ("b.zip", 3, "y.csv", "four")


def test_a_member_that_is_damaged_is_one_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.zip").write_bytes(zipped({"x.csv": b"no\n2\n", "y.csv": b"id\n4\n"}))
    events = run(tmp_path, "format: csv", "schema: id BIGINT NOT NULL")
    assert named(tmp_path, "id") == [(4, "b.zip", "y.csv")]
    (committed,) = [event for event in events if event["event"] == "batch_committed"]
    assert (committed["rows"], committed["dead_records"], committed["dead_files"]) == (1, 1, 0)
    (letter,) = [json.loads(file.read_text()) for file in tmp_path.glob("table/_blizzard/*/dead_letters/*/*.ndjson")]
    assert (letter["row"], letter["member"], letter["raw"]) == (0, "x.csv", "")
    assert letter["error"].startswith("member x.csv: ")


def parquet(*ids: int) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(ids)}), made)
    return made.getvalue()


@pytest.mark.parametrize(
    ("source", "members", "column", "expected"),
    [
        (("format: parquet", "schema: id BIGINT"), {"x": parquet(1, 2), "y": parquet(3)}, "id", [1, 2, 3]),
        (("format: json", "schema: id BIGINT"), {"x": b'[{"id": 1},\n{"id": 2}]', "y": b'{"id":3}'}, "id", [1, 2, 3]),
        (
            ("format: xml", "schema: id BIGINT", "xml: {row_tag: r}"),
            {"x": b"<a><r><id>1</id></r></a>", "y": b"<r><id>2</id></r>"},
            "id",
            [1, 2],
        ),
        (("format: binary", "compression: zip"), {"x": b"\0\1", "y.gz": b"2"}, "content", [b"\0\1", b"2"]),
        (("format: text", "text: {whole: true}"), {"x": b"a\nb", "y": b"c"}, "value", ["a\nb", "c"]),
        (
            ("format: mixed", "schema: id BIGINT", 'mixed: [{pattern: "*.zip", format: csv}]'),
            {"x": b"id\n1\n", "y": b"id\n2\n"},
            "id",
            [1, 2],
        ),
    ],
    ids=["parquet", "json", "xml", "binary", "text", "mixed"],
)
def test_any_format_may_be_in_a_zip(
    tmp_path: Path, source: tuple[str, ...], members: dict[str, bytes], column: str, expected: list[Any]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "b.zip").write_bytes(zipped(members))
    run(tmp_path, *source)
    assert [row[column] for row in rows_in(tmp_path)] == expected
    assert [row["_source"]["row"] for row in rows_in(tmp_path)] == [*range(len(expected))]
    assert {row["_source"]["member"] for row in rows_in(tmp_path)} == {*members}
