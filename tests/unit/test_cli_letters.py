"""`blizzard letters`: grouped by reason, filtered, and with the raw records."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from blizzard.cli import main
from blizzard.cli.letter_groups import LetterGroups, kind_of
from blizzard.state.dead_letters import DeadLetter, DeadLetters, Stage
from tests.unit.operator_world import IDENTITY, OperatorWorld, files_below

DAY_SECS = 86_400.0
FIRST_TS = 1_764_000_000.0


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """Letters of three days: of a file, of records of two files, and one that is not text."""
    made = OperatorWorld(tmp_path)
    made.land("a/1.ndjson.gz", "good")
    made.run()
    letters = DeadLetters(made.source.state, IDENTITY.state_prefix, IDENTITY.source_id)
    letters.write_file(DeadLetter("b/torn\n.gz", "e0", Stage.DECOMPRESS, "truncated gzip at byte 17"), FIRST_TS)
    for day, path in ((1, "a/1.gz"), (2, "a/2.gz")):
        records = [DeadLetter(path, "e1", Stage.PARSE, f"n: '{row}' is no number", row, f"raw {row}") for row in (3, 5)]
        letters.write_records(records, FIRST_TS + day * DAY_SECS)
    letters.write_records([DeadLetter("a/3.gz", "e2", Stage.PARSE, "no UTF-8", 0, b"\xff")], FIRST_TS)
    return made


def letters(world: OperatorWorld, *options: str) -> int:
    return main(["letters", str(world.config_file), *options])


def answer(world: OperatorWorld, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert letters(world, "--json", *options) == 0
    (found,) = json.loads(capsys.readouterr().out)
    return dict(found)


def test_letters_are_grouped_by_what_their_reasons_have_in_common(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(world, capsys)
    assert (found["files"], found["records"], found["letters"], found["unreadable"]) == (4, 5, None, [])
    groups = [(each["stage"], each["reason"], each["files"], each["records"]) for each in found["groups"]]
    assert groups == [
        ("parse", "n: '…' is no number", 2, 4),
        ("parse", "no UTF-8", 1, 1),
        ("decompress", "truncated gzip at byte 17", 1, 0),
    ]
    first = found["groups"][0]
    assert (first["first_ts"], first["last_ts"]) == (FIRST_TS + DAY_SECS, FIRST_TS + 2 * DAY_SECS)
    assert (first["path"], first["error"]) == ("a/1.gz", "n: '3' is no number")


def test_reasons_without_their_values() -> None:
    assert kind_of('`a b`: expected 3.5, found "x"\nmore') == "'…': expected N, found '…'"


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (["schema 7: 'a' is no 'int'\nmore"], "schema 7: 'a' is no 'int'"),
        (["schema 7: 'a' is no 'int'"] * 2, "schema 7: 'a' is no 'int'"),
        (["schema 7: 'a' is no 'int'", "schema 7: 'b' is no 'int'"], "schema 7: '…' is no 'int'"),
        (["above 1.5 of 9", "above 2 of 9", "above 1.5 of 9", "above 3 of 8"], "above N of N"),
        (["column N of 'a'", "column 4 of 'b'", "column N of 'a'"], "column N of '…'"),
        (["column 4 of 'b'", "column N of 'a'"], "column N of '…'"),
        ([""], ""),
    ],
)
def test_a_group_shows_the_values_that_all_of_its_letters_have(errors: list[str], reason: str) -> None:
    groups = LetterGroups()
    for row, error in enumerate(errors):
        groups.add({"stage": "parse", "path": "a", "etag": "e", "row": row, "error": error})
    (group,) = groups.largest_first()
    assert (group.reason, group.records, group.error) == (reason, len(errors), errors[0])


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        (["--path", "b/**"], ["b/torn\n.gz"]),
        (["--path", "b/**", "--path", "a/1*"], ["a/1.gz", "a/1.gz", "b/torn\n.gz"]),
        (["--stage", "decompress"], ["b/torn\n.gz"]),
        (["--reason", "NO Number"], ["a/1.gz", "a/1.gz", "a/2.gz", "a/2.gz"]),
        (["--since", "2025-11-25T16:01"], ["a/2.gz", "a/2.gz"]),
        (["--until", "2025-11-25T00:00+00:00"], ["a/3.gz", "b/torn\n.gz"]),
        (["--raw", "w 3"], ["a/1.gz", "a/2.gz"]),
        (["--raw", "raw 5", "--path", "a/1*"], ["a/1.gz"]),
        (["--raw", "\ufffd"], ["a/3.gz"]),
        (["--raw", "RAW"], []),
        (["--source", "shop", "--pipeline", "orders", "--reason", "of no letter"], []),
    ],
)
def test_only_some_letters(
    world: OperatorWorld, options: list[str], paths: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(world, capsys, "--details", *options)
    assert sorted(letter["path"] for letter in found["letters"]) == paths
    assert found["files"] == len(set(paths))


def test_details_have_all_that_is_stored(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next((world.state / "dead_letters").glob("a_2*"))
    (stored,) = folder.iterdir()
    stored.write_text(stored.read_text().replace('"row": 3', '"row": 3, "member": "x/y.json"'))
    found = answer(world, capsys, "--details", "--path", "a/2.gz", "--limit", "1")
    assert (found["letters"][0]["member"], found["letters"][0]["raw"], len(found["letters"])) == (
        "x/y.json",
        "raw 3",
        1,
    )
    assert found["records"] == 2
    assert letters(world, "--details", "--path", "a/2.gz") == 0
    said = capsys.readouterr().out
    assert "a/2.gz, record 3 (parse): n: '3' is no number\n" in said
    assert "member x/y.json\n   raw: raw 3\n" in said


def test_letters_that_are_not_shown_are_counted(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    for options, omitted in ((["--details", "--limit", "2"], 4), (["--details"], 0), (["--limit", "2"], 0)):
        assert answer(world, capsys, *options)["omitted"] == omitted
        assert letters(world, *options) == 0
        said = " 4 more letters are not shown: --limit N shows more, --limit 0 all of them\n"
        assert (said in capsys.readouterr().out) == bool(omitted)


def test_text_for_people_has_no_control_characters(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert letters(world, "--details", "--limit", "0") == 0
    said = capsys.readouterr().out
    assert "b/torn\\n.gz (decompress)" in said
    assert "raw, in base64: /w==" in said
    assert " 4 files with dead letters, 5 refused records\n" in said


def test_a_letter_that_cannot_be_read(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    stored = next((world.state / "dead_letters").glob("a_3*")) / "records-000000000000.ndjson"
    stored.write_bytes(b'[1]\n{"torn": \n')
    assert letters(world, "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert [each.partition(":")[0][-32:] for each in found["unreadable"]] == [
        "records-000000000000.ndjson, line 1"[-32:],
        "records-000000000000.ndjson, line 2"[-32:],
    ]
    assert found["records"] == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--since", "yesterday"], "--since yesterday: expected a date or time"),
        (["--since", ""], "--since: expected a date or time"),
        (["--until", ""], "--until: expected a date or time"),
        (["--reason", ""], "--reason: found an empty text"),
        (["--raw", ""], "--raw: found an empty text"),
        (["--path", "[a"], "--path [a:"),
        (["--stage", "nowhere"], "--stage"),
    ],
)
def test_wrong_input(world: OperatorWorld, options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert letters(world, *options) == 2
    assert text in capsys.readouterr().err


def test_nothing_is_written_and_no_letter_is_no_fault(
    world: OperatorWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [*files_below(world.folder)]
    assert letters(world) == 0
    assert [*files_below(world.folder)] == before
    capsys.readouterr()
    found = answer(OperatorWorld(tmp_path / "empty"), capsys)
    assert (found["files"], found["groups"]) == (0, [])


def test_many_letters_show_how_far_it_is_on_a_terminal(world: OperatorWorld) -> None:
    letters = DeadLetters(world.source.state, IDENTITY.state_prefix, IDENTITY.source_id)
    letters.write_records([DeadLetter("a/9.gz", "e", Stage.PARSE, "bad", row) for row in range(500)], FIRST_TS)
    ours, theirs = pty.openpty()
    code = "import sys; from blizzard.cli import main; sys.exit(main())"
    words = [sys.executable, "-c", code, "letters", str(world.config_file)]
    done = subprocess.run(words, stderr=theirs, stdout=subprocess.PIPE, check=True, text=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "reading letters" in shown
    assert "505 refused records" in done.stdout


def test_letters_that_say_nothing_are_named_and_the_others_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = OperatorWorld(tmp_path)
    world.land("a/1.ndjson.gz", "a", None, "c")
    world.run()
    world.settings["schema"] = "id STRING, amount BIGINT"
    odd = world.state / "dead_letters/odd-1/file.ndjson"
    odd.parent.mkdir()
    odd.write_text('{"error": "no path"}\n{"path": "a/1.ndjson.gz", "etag": "e", "row": "two", "error": "x"}\n')
    assert main(["replay", str(world.config_file), "--json"]) == 1
    (answer,) = json.loads(capsys.readouterr().out)
    assert (answer["counts"]["done"], answer["rows"], len(answer["unreadable"])) == (1, 1, 2)
    odd.unlink()
    assert main(["letters", str(world.config_file)]) == 0
