"""Dead letters that are gone or doubled, and rows of two contents: an audit finds them under their names."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from blizzard.audit.report import Verdict
from blizzard.cli import main
from tests.unit.operator_world import OperatorWorld, assert_well, kinds, paths

GOOD, DIRTY, TORN = "a/1.ndjson.gz", "b/2.ndjson.gz", "b/torn.ndjson.gz"


@pytest.fixture
def world(tmp_path: Path) -> OperatorWorld:
    """A good file, one with three refused records, and one that was refused as a whole."""
    made = OperatorWorld(tmp_path)
    made.land(GOOD, "a0", "a1")
    made.land(DIRTY, "b0", None, None, "b3", None)
    made.land_bytes(TORN, b"\x1f\x8b")
    made.run()
    assert_well(made)
    return made


def stored(world: OperatorWorld, name: str) -> Path:
    (found,) = (world.state / "dead_letters").glob(f"*{name}*/*")
    return found


def lose_object(file: Path) -> None:
    file.unlink()


def lose_line(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))


def damage_line(file: Path) -> None:
    file.write_text(file.read_text().replace("{", "", 1))


@pytest.mark.parametrize(("harm", "left"), [(lose_object, 0), (lose_line, 2), (damage_line, 2)])
def test_letters_of_records_that_are_gone(world: OperatorWorld, harm: Callable[[Path], None], left: int) -> None:
    harm(stored(world, "2.ndjson"))
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.BAD, ["letters_lost"])
    (lost,) = report.names["letters_lost"]
    assert (lost["path"], lost["letters_expected"], lost["letters_found"]) == (DIRTY, 3, left)
    assert "1 files have fewer dead letters than were written, or some that cannot be read. " in report.notices[0].text


def test_the_letter_of_a_file_that_is_gone_is_written_anew(
    world: OperatorWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    letter = stored(world, "torn")
    before = {**json.loads(letter.read_text()), "timestamp": ""}
    letter.unlink()
    report = world.audit()
    assert (report.verdict, kinds(report), paths(report, "letters_lost")) == (Verdict.BAD, ["letters_lost"], [TORN])
    assert main(["audit", str(world.config_file), "--repair"]) == 1
    assert "1 files were announced again" in capsys.readouterr().out
    world.run(sweep=False)
    assert_well(world)
    assert {**json.loads(letter.read_text()), "timestamp": ""} == before
    letter.unlink()
    (world.folder / "incoming" / TORN).unlink()
    assert main(["audit", str(world.config_file), "--repair"]) == 1
    assert "nothing was to announce" in capsys.readouterr().out


def test_letters_of_a_file_that_is_gone_are_missed_too(world: OperatorWorld) -> None:
    (world.folder / "incoming" / DIRTY).unlink()
    stored(world, "2.ndjson").unlink()
    report = world.audit()
    assert (report.gone, paths(report, "letters_lost")) == (1, [DIRTY])


@pytest.mark.parametrize(("path", "expected"), [(DIRTY, 3), (TORN, 1)])
def test_doubled_letters(world: OperatorWorld, path: str, expected: int) -> None:
    letter = stored(world, path.rpartition("/")[2][:4])
    shutil.copy(letter, letter.with_name(f"copy-{letter.name}"))
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.NOTES, ["letters_doubled"])
    (doubled,) = report.names["letters_doubled"]
    assert (doubled["path"], doubled["letters_expected"], doubled["letters_found"]) == (path, expected, 2 * expected)


def test_one_letter_lost_and_another_doubled_do_not_make_up_for_each_other(world: OperatorWorld) -> None:
    letter = stored(world, "2.ndjson")
    first, second, _ = letter.read_text().splitlines(keepends=True)
    letter.write_text(first + second + second)
    report = world.audit()
    assert (paths(report, "letters_lost"), paths(report, "letters_doubled")) == ([DIRTY], [DIRTY])


def give(world: OperatorWorld, row: int) -> None:
    file = world.folder / "repaired.ndjson"
    file.write_text(json.dumps({"path": DIRTY, "row": row, "record": {"id": "repaired"}}))
    assert main(["replay", str(world.config_file), "--records", str(file)]) == 0


def test_repaired_records_have_their_letters_still(world: OperatorWorld) -> None:
    give(world, 1)
    assert_well(world)
    world.settings["schema"] = "id STRING, amount BIGINT"
    assert main(["replay", str(world.config_file), "--path", DIRTY]) == 0
    assert_well(world)
    stored(world, "2.ndjson").unlink()  # none of its records is refused any more
    assert_well(world)


def test_without_marks_letters_of_repaired_records_look_open_and_are_no_fault(world: OperatorWorld) -> None:
    give(world, 2)
    shutil.rmtree(world.state / "settled_letters")
    assert_well(world)


def test_a_lost_letter_of_a_file_some_of_which_was_repaired(world: OperatorWorld) -> None:
    give(world, 1)
    letter = stored(world, "2.ndjson")
    letter.write_text(letter.read_text().splitlines(keepends=True)[0])
    (lost,) = world.audit().names["letters_lost"]
    assert (lost["letters_expected"], lost["letters_found"]) == (2, 1)


def test_overwritten_files_are_compared_by_the_content_that_the_table_has(world: OperatorWorld) -> None:
    world.settings["on_overwrite"] = "dead_letter"
    world.land(DIRTY, "other", None)
    world.run()
    report = world.audit()
    assert (report.verdict, report.notices, report.dead_lettered) == (Verdict.GOOD, [], 2)


# -- two contents


def add_row(world: OperatorWorld, path: str, **source: object) -> None:
    rows = world.table().to_pyarrow_table()
    (row, *_) = (each for each in rows.to_pylist() if each["_source"]["file"] == path)
    row["_source"] |= source
    write_deltalake(world.table(), pa.Table.from_pylist([row], rows.schema), mode="append")


@pytest.mark.parametrize("etag", ["of another content", None])
def test_rows_of_two_contents(world: OperatorWorld, etag: str | None) -> None:
    add_row(world, GOOD, etag=etag)
    report = world.audit()
    assert (report.verdict, kinds(report)) == (Verdict.BAD, ["other_content"])
    (found,) = report.names["other_content"]
    info = world.source.files.head(GOOD)
    assert info is not None
    assert found == {"path": GOOD, "etag": etag or "", "etag_committed": info.etag, "rows_found": 1}
    assert (report.doubled, report.rows.added, report.rows.deleted) == (0, 0, 0)


def test_rows_whose_content_was_renamed_are_gone_and_those_of_another_one(world: OperatorWorld) -> None:
    rows = world.table().to_pyarrow_table()
    changed = [
        {**row, "_source": {**row["_source"], "etag": "e"}} if row["id"] == "a1" else row for row in rows.to_pylist()
    ]
    write_deltalake(world.table(), pa.Table.from_pylist(changed, rows.schema), mode="overwrite")
    report = world.audit()
    assert (paths(report, "other_content"), paths(report, "rows_deleted")) == ([GOOD], [GOOD])


def test_the_command_names_them(world: OperatorWorld, capsys: pytest.CaptureFixture[str]) -> None:
    add_row(world, GOOD, etag="other")
    stored(world, "torn").unlink()
    assert main(["audit", str(world.config_file)]) == 1
    said = capsys.readouterr().out
    assert f" other content: {GOOD} (etag committed " in said
    assert " letters_lost: 1 files have fewer dead letters" in said
