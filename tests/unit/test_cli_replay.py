"""`blizzard replay` and `blizzard replace`, as an operator uses them: on a small lake that the local engine writes."""

import csv
import gzip
import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld, files_below

RECORDS = [
    {"id": "a", "amount": "1"},
    {"id": "b", "amount": "two"},
    {"id": "c", "amount": "3"},
    {"id": "d", "amount": "4x"},
]
"""The second and the fourth do not fit."""


def as_lines(records: list[dict[str, str]]) -> bytes:
    typed = [{**one, "amount": int(one["amount"]) if one["amount"].isdigit() else one["amount"]} for one in records]
    return "".join(f"{json.dumps(one)}\n" for one in typed).encode()


def as_csv(records: list[dict[str, str]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "amount"])
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


TOO_LARGE = 300
"""For a TINYINT."""


def as_parquet(records: list[dict[str, str]]) -> bytes:
    """Its column has a type of its own, so a record that does not fit has a number that is too large."""
    amounts = [int(one["amount"]) if one["amount"].isdigit() else TOO_LARGE for one in records]
    data = io.BytesIO()
    pq.write_table(pa.table({"id": [one["id"] for one in records], "amount": pa.array(amounts, pa.int32())}), data)
    return data.getvalue()


def as_zip(records: list[dict[str, str]]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for number in (0, 2):
            archive.writestr(f"{number}.ndjson", as_lines(records[number : number + 2]))
    return data.getvalue()


FORMATS: Mapping[str, tuple[str, str, Callable[[list[dict[str, str]]], bytes]]] = {
    "ndjson": ("ndjson", "f.ndjson.gz", lambda records: gzip.compress(as_lines(records), mtime=0)),
    "csv": ("csv", "f.csv", as_csv),
    "json": ("json", "f.json", lambda records: b"[" + b",".join(as_lines(records).splitlines()) + b"]"),
    "parquet": ("parquet", "f.parquet", as_parquet),
    "zip": ("ndjson", "f.zip", as_zip),
}


def answer(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str], command: str, *options: str, code: int = 0
) -> dict[str, Any]:
    capsys.readouterr()
    assert main([command, str(world.config_file), "--json", *options]) == code
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


def rows_of(world: OperatorWorld) -> list[tuple[str, int, str, int | None]]:
    rows = world.table().to_pyarrow_table().to_pylist()
    return sorted((row["_source"]["file"], row["_source"]["row"], row["id"], row["amount"]) for row in rows)


def open_letters(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> list[tuple[str, int | None]]:
    found = answer(world, capsys, "letters", "--details")
    return [(letter["path"], letter.get("row")) for letter in found["letters"]]


@pytest.mark.parametrize("name", FORMATS)
def test_refused_records_are_put_back_as_configured_today(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """First what does not fit is refused, then it is kept beside its column."""
    file_format, path, write = FORMATS[name]
    options: dict[str, Any] = {"csv": {"header": True}} if file_format == "csv" else {}
    if file_format == "parquet":
        options["schema"] = "id STRING NOT NULL, amount TINYINT"
    world = OperatorWorld(tmp_path, {"pattern": "*", "format": file_format, **options})
    world.land_bytes(path, write(RECORDS))
    world.run()
    good = [(path, 0, "a", 1), (path, 2, "c", 3)]
    assert rows_of(world) == good
    assert open_letters(world, capsys) == [(path, 1), (path, 3)]

    again = answer(world, capsys, "replay", code=1)
    assert (again["counts"]["refused"], again["rows"]) == (1, 0)
    assert [one["row"] for one in again["files"][0]["refused"]] == [1, 3]
    assert rows_of(world) == good

    world.settings["misfits"] = "rescue"
    done = answer(world, capsys, "replay")
    assert (done["counts"]["done"], done["rows"], done["files"][0]["table_version"]) == (1, 2, world.table().version())
    assert rows_of(world) == sorted([*good, (path, 1, "b", None), (path, 3, "d", None)])
    rescued = {row["id"]: row["_rescued"] for row in world.table().to_pyarrow_table().to_pylist() if row["_rescued"]}
    kept = {"b": TOO_LARGE, "d": TOO_LARGE} if file_format == "parquet" else {"b": "two", "d": "4x"}
    assert {name: json.loads(text)["amount"] for name, text in rescued.items()} == kept
    assert open_letters(world, capsys) == []
    settled = answer(world, capsys, "letters", "--details", "--settled")
    assert [letter["settled"]["table_version"] for letter in settled["letters"]] == 2 * [world.table().version()]

    world.run()
    assert answer(world, capsys, "replay")["files"] == []
    assert len(rows_of(world)) == 4
    audit = world.audit()
    assert (str(audit.verdict), audit.rows.found, audit.rows.expected) == ("good", 4, 4)


def test_repaired_records_replace_refused_ones_whatever_the_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path, {"pattern": "*", "format": "csv", "csv": {"header": True}})
    world.land_bytes("f.csv", as_csv(RECORDS))
    world.run()
    repaired = tmp_path / "repaired.ndjson"
    lines = [
        {"path": "f.csv", "row": 1, "record": {"id": "b", "amount": 2}},
        {"path": "f.csv", "row": 3, "raw": '{"id": "d"}'},
    ]
    repaired.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    done = answer(world, capsys, "replay", "--records", str(repaired))
    assert (done["counts"]["done"], done["rows"]) == (1, 2)
    for _ in range(2):
        assert rows_of(world) == [
            ("f.csv", 0, "a", 1),
            ("f.csv", 1, "b", 2),
            ("f.csv", 2, "c", 3),
            ("f.csv", 3, "d", None),
        ]
        assert open_letters(world, capsys) == []
        again = answer(world, capsys, "replay", "--records", str(repaired))
        assert (again["counts"]["in_already"], again["rows"]) == (1, 0)
    assert str(world.audit().verdict) == "good"


def test_repaired_records_may_come_from_a_pipe_and_have_a_byte_order_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the shell's `<(…)` hands them on."""
    world = OperatorWorld(tmp_path, {"pattern": "*", "format": "csv", "csv": {"header": True}})
    world.land_bytes("f.csv", as_csv(RECORDS))
    world.run()
    line = b'\xef\xbb\xbf{"path": "f.csv", "row": 1, "record": {"id": "b", "amount": %s}}\n'

    def replayed(data: bytes, code: int) -> str:
        reads, writes = os.pipe()
        os.write(writes, data)
        os.close(writes)
        capsys.readouterr()
        words = ["replay", str(world.config_file), "--records", f"/dev/fd/{reads}"]
        assert (main(words), os.close(reads)) == (code, None)
        return "".join(capsys.readouterr()).replace(f"/dev/fd/{reads}", "PIPE")

    assert "PIPE, line 1: record 0 of f.csv has no dead letter" in replayed(line.replace(b": 1", b": 0") % b"2", 2)
    replayed(line % b"2", 0)
    assert ("f.csv", 1, "b", 2) in rows_of(world)


def test_a_number_of_a_repaired_record_keeps_all_its_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path, {"pattern": "*", "schema": "id STRING NOT NULL, price DECIMAL(38, 20)"})
    world.land_bytes("f.ndjson", b"{}\n")
    world.run()
    (tmp_path / "r").write_text(
        '{"record": {"id": "a", "price":   0.10000000000000000001}, "row": 0, "path": "f.ndjson"}'
    )
    assert answer(world, capsys, "replay", "--records", str(tmp_path / "r"))["rows"] == 1
    (row,) = world.table().to_pyarrow_table().to_pylist()
    assert str(row["price"]) == "0.10000000000000000001"


BAD_RECORDS = {
    "no JSON": ("nonsense", "line 1: Expecting value"),
    "no object": ("[1]", "line 1: expected an object with path, row and record"),
    "no row": ('{"path": "f.csv", "record": {}}', 'expected "path" and "row"'),
    "a row that is true": ('{"path": "f.csv", "row": true, "record": {}}', 'expected "path" and "row"'),
    "no record": ('{"path": "f.csv", "row": 1}', 'expected the repaired record as "record"'),
    "a record that is no object": (
        '{"path": "f.csv", "row": 1, "record": 5}',
        'expected the repaired record as "record"',
    ),
    "a text that is no JSON": ('{"path": "f.csv", "row": 1, "raw": "b,two"}', "expected JSON in"),
    "twice": ('{"path": "f.csv", "row": 1, "record": {}}\n' * 2, "line 2: record 1 of f.csv is there twice"),
    "no letter": ('{"path": "f.csv", "row": 0, "record": {}}', "record 0 of f.csv has no dead letter in orders:shop"),
    "another content": (
        '{"path": "f.csv", "row": 1, "etag": "e", "record": {}}',
        "record 1 of f.csv has no dead letter in orders:shop",
    ),
    "half a character": ('{"path": "f.csv", "row": 1, "raw": "{\\"id\\": \\"\\ud800\\"}"}', "surrogates not allowed"),
    "nothing": ("\n", "expected a repaired record in each line, found none"),
}


def test_wrong_input_is_named_and_nothing_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path, {"pattern": "*", "format": "csv", "csv": {"header": True}})
    world.land_bytes("f.csv", as_csv(RECORDS))
    world.run()
    before, config = files_below(tmp_path / "lake"), str(world.config_file)
    for text, said in BAD_RECORDS.values():
        (tmp_path / "r").write_text(text)
        assert main(["replay", config, "--records", str(tmp_path / "r")]) == 2
        error = capsys.readouterr().err
        assert (said in error, error.startswith("blizzard: ")) == (True, True)
    for unreadable in ("absent", "lake"):
        assert main(["replay", config, "--records", str(tmp_path / unreadable)]) == 2
        assert "cannot be read" in capsys.readouterr().err
    for words, said in (
        (["replay", config, "--records", "r", "--path", "*"], "--records names the records itself"),
        (["replay", config, "--source", "x"], "--source x: expected one of orders:shop"),
        (["replay", config, "--path", "[x"], "--path [x"),
        (["replay", config, "--since", "soon"], "--since soon"),
        (["replay", config, "--reason", ""], "--reason: found an empty text"),
        (["replay", config, "--stage", ""], "--stage"),
        (["replay", config, "--since", ""], "--since: expected a date or time"),
        (["replay", config, "--until", ""], "--until: expected a date or time"),
        (["replace", config], "expected --path or --partition"),
        (["replace", config, "--partition", "/"], "--partition: expected a folder of the source"),
        (["replace", config, "--path", "x*", "--engine", "auto"], "nothing of orders:shop matches"),
        (["replace", config, "--path", "*", "--engine", "local"], "--engine local: expected auto or spark"),
        (
            ["replace", config, "--path", "*", "--engine", "local", "--dry-run"],
            "--engine local: expected auto or spark",
        ),
        (["replace", config, "--path", "*"], "pipeline orders has `engine: local`: expected --engine auto or spark"),
        (["replace", "absent.yaml", "--path", "x*"], "absent.yaml"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert files_below(tmp_path / "lake") == before


def test_letters_are_chosen_as_they_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    world.land_bytes("torn.ndjson.gz", b"\x1f\x8b")
    world.land("a/1.ndjson.gz", "x", None)
    world.land("b/2.ndjson.gz", None, "y")
    world.run()
    before = files_below(tmp_path / "lake")

    def planned(*options: str) -> list[str]:
        found = answer(world, capsys, "replay", "--dry-run", *options)
        assert (found["files"], found["left"], found["dry_run"]) == ([], [], True)
        return [f"{one['path']} {one['kind']}" for one in found["planned"]]

    everything = ["a/1.ndjson.gz records", "b/2.ndjson.gz records", "torn.ndjson.gz file"]
    assert planned() == everything
    assert planned("--stage", "decompress") == everything[2:]
    assert planned("--path", "a/**", "--path", "torn*") == everything[::2]
    assert planned("--reason", "TRUNCATED") == everything[2:]
    assert planned("--until", "2020-01-01") == []
    assert planned("--since", "1h") == everything
    assert files_below(tmp_path / "lake") == before


@pytest.mark.parametrize("name", ["a[1].ndjson.gz", "e{x.ndjson.gz", "f\\g.ndjson.gz"])
def test_a_text_is_the_path_that_it_names_whatever_it_means_as_a_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    world = OperatorWorld(tmp_path)
    world.land(name, "x", None)
    world.land("b.ndjson.gz", "x", None)
    world.run()
    for command in ("replay", "replace"):
        found = answer(world, capsys, command, "--path", name, "--dry-run")
        assert [one["path"] for one in found["planned"]] == [name]
    assert answer(world, capsys, "letters", "--path", name)["files"] == 1
    assert answer(world, capsys, "letters", "--path", name, "--reason", "nothing")["files"] == 0
    assert answer(world, capsys, "letters", "--path", name, "--since", "2200-01-01")["files"] == 0
    found = answer(world, capsys, "replay", "--path", name, "--path", "b*", code=1)
    assert {one["path"] for one in found["files"]} == {"b.ndjson.gz", name}


@pytest.mark.parametrize("command", ["replay", "replace", "letters"])
def test_a_text_that_is_neither_pattern_nor_path_is_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("e{x.ndjson.gz", "x", None)
    world.run()
    assert main([command, str(world.config_file), "--path", "e{x.ndjson.gz", "--path", "k{x"]) == 2
    assert "--path k{x: `{` and `}` do not pair up" in capsys.readouterr().err
    assert main([command, str(world.config_file), "--path", "k{/../x"]) == 2


def test_a_dry_run_of_replace_names_what_it_would_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    gone = world.land("a/1.ndjson.gz", "x")
    world.land("a/2.ndjson.gz", "y")
    world.land("b/3.ndjson.gz", "z")
    world.land_bytes("a/readme.txt", b"")
    world.run()
    gone.unlink()
    before = files_below(tmp_path / "lake")
    found = answer(world, capsys, "replace", "--partition", "a", "--dry-run", code=1)
    assert [one["path"] for one in found["planned"]] == ["a/2.ndjson.gz"]
    assert [(one["path"], one["reason"]) for one in found["files"]] == [
        ("a/1.ndjson.gz", "the source no longer has it; its rows stay in the table")
    ]
    assert files_below(tmp_path / "lake") == before


def test_a_dry_run_of_replace_says_which_deleted_rows_would_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "x", "gdpr", None)
    world.land("a/2.ndjson.gz", "y")
    world.land("b/3.ndjson.gz", "gdpr")
    world.run()
    world.table().delete("id = 'gdpr'")
    found = answer(world, capsys, "replace", "--partition", "a", "--dry-run")
    assert found["deleted"] == [{"path": "a/1.ndjson.gz", "rows": 1}]
    assert main(["replace", str(world.config_file), "--path", "**", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "2 rows of 2 files that were committed were no longer in the table" in said
    assert "somebody had deleted them, or data files of the table are lost (`blizzard audit` names them)" in said
    assert "they would come back\n   a/1.ndjson.gz: 1 rows\n   b/3.ndjson.gz: 1 rows\n" in said


@pytest.mark.parametrize("state", ["pending", "dead_lettered"])
def test_deleted_rows_are_known_though_the_new_content_of_files_waits_or_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    world = OperatorWorld(tmp_path, {"on_overwrite": "dead_letter"})
    world.land("a/1.ndjson.gz", "x", "gdpr")
    world.land("a/2.ndjson.gz", "y")
    world.land("b/3.ndjson.gz", "gdpr")
    world.run()
    world.table().delete("id = 'gdpr'")
    for path in ("a/1.ndjson.gz", "a/2.ndjson.gz"):
        world.land(path, "other")
    if state == "dead_lettered":
        world.run()
    assert main(["files", str(world.config_file), "--json", "a/"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["state"], first["rows_found"], second["rows_found"]) == (state, 1, 1)
    assert "; 1 of its 2 rows are no longer in the table: somebody has deleted them" in first["reason"]
    assert "no longer" not in second["reason"]
    found = answer(world, capsys, "replace", "--path", "**", "--dry-run")
    assert found["deleted"] == [{"path": "a/1.ndjson.gz", "rows": 1}, {"path": "b/3.ndjson.gz", "rows": 1}]


def test_people_read_what_became_of_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "x", None)
    world.run()
    capsys.readouterr()
    assert main(["replay", str(world.config_file)]) == 1
    said = capsys.readouterr().out
    assert " 1 files were refused again\n   a/1.ndjson.gz, 1 of its records" in said
    assert "     record 1: " in said
    assert main(["replay", str(world.config_file), "--path", "b*"]) == 0
    assert "nothing to do: no open letter is meant" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "lost"),
    [(["replay"], "lake"), (["replace", "--path", "**"], "incoming"), (["replace", "--path", "**"], "lake")],
)
def test_what_cannot_be_read_is_no_wrong_input(
    words: list[str], lost: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "x", None)
    world.run()
    shutil.rmtree(tmp_path / lost)
    (tmp_path / lost).write_text("a file where a folder should be")
    command, *options = words
    assert main([command, str(world.config_file), *options, "--dry-run", "--json"]) == 1
    said = capfd.readouterr()
    error = json.loads(said.out)["error"]
    assert (lost in error, f"blizzard: {error}" in said.err) == (True, True)
